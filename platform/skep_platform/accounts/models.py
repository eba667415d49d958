"""Users and their API tokens."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.models import AbstractUser
from django.core.validators import RegexValidator
from django.db import models
from django.utils.crypto import salted_hmac
from knox.models import AbstractAuthToken

from skep_platform.core.models import Entity, uuid7

GROUP_NAME = RegexValidator(
    r"\A[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}\Z", "Use letters, digits, '-', '_' and '.'."
)


class Scope(models.TextChoices):
    """In ascending order: each may do what those before it may."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"


class User(AbstractUser):  # type: ignore[django-manager-missing]  # knox has no types
    """A person or an automation. `is_superuser` is the cluster administrator; rights inside a
    virtual cluster come from `tenancy.Membership`."""

    # Counted up to end every session of the user at once: it is part of what a session is signed
    # with, as the password is.
    sign_outs = models.PositiveIntegerField(default=0)
    # Set when the user was deleted but rows still refer to it (its jobs, for example).
    deleted_at = models.DateTimeField(null=True)
    # Owned by a virtual cluster (`tenancy.ServiceAccount`): it has no password and cannot log in.
    is_service_account = models.BooleanField(default=False, db_default=False)
    # The address that the user has shown to read; it counts while it is still that of the account.
    confirmed_email = models.CharField(max_length=254, blank=True, db_default="")
    # Bits of the events (`core.user_events`) that any channel of the user reports; null: those of
    # a user who has chosen nothing.
    notified_events = models.PositiveIntegerField(null=True)

    # Of the token by which this instance was found; a session may do all that its user may.
    token_scope = Scope.ADMIN.value
    used_token: ApiToken | None = None
    # How this instance was found by a password: the password of this account, or of the directory.
    login_method = "password"

    @property
    def is_admin(self) -> bool:
        return self.is_active and self.is_superuser and self.only_vc is None

    @property
    def email_confirmed(self) -> bool:
        return bool(self.email) and self.email == self.confirmed_email

    @property
    def only_vc(self) -> UUID | None:
        """The id of the one virtual cluster in which the token of this instance is of use; None:
        it is not limited to one."""
        return self.used_token.vc_id if self.used_token else None

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        key_salt = "skep_platform.accounts.User.session"
        signed = f"{self.password}{self.sign_outs}"
        return salted_hmac(key_salt, signed, secret=secret, algorithm="sha256").hexdigest()


class SshKey(Entity):
    """A public key of a user; see `ssh_keys`. `public_key`: type and key, in base64."""

    MAX_NAME = 100

    user = models.ForeignKey(User, models.CASCADE, related_name="ssh_keys", db_index=False)
    name = models.CharField(max_length=MAX_NAME)
    public_key = models.CharField(max_length=4096)
    fingerprint = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "name"], name="ssh_key_name_once"),
            models.UniqueConstraint(fields=["user", "fingerprint"], name="ssh_key_once"),
        ]

    def __str__(self) -> str:
        return self.name


class AccountMail(Entity):
    """An e-mail about an account that a task will send, within seconds: `whom` is what was typed
    as user name or address to recover one, or the address to confirm. See `recovery`."""

    class Kind(models.TextChoices):
        RECOVERY = "recovery"
        CONFIRM = "confirm"

    kind = models.CharField(max_length=8, choices=Kind.choices)
    user = models.ForeignKey(User, models.CASCADE, null=True, related_name="+")
    whom = models.CharField(max_length=254)
    address = models.CharField(max_length=64, blank=True)  # of who asked
    due_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "user", "whom"], nulls_distinct=False, name="account_mail_once"
            )
        ]


class Group(Entity):
    """Users who get the same roles in virtual clusters. `external_name` is the group of the
    identity provider whose members join at login and leave when it no longer names them."""

    name = models.CharField(max_length=63, unique=True, validators=[GROUP_NAME])
    description = models.CharField(max_length=500, blank=True)
    external_name = models.CharField(max_length=255, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["external_name"],
                condition=~models.Q(external_name=""),
                name="group_external_name_once",
            )
        ]

    def __str__(self) -> str:
        return self.name


class GroupMember(models.Model):
    """A user of a group. `external`: by the identity provider, which may take the user out again;
    the others were added by an admin."""

    group = models.ForeignKey(Group, models.CASCADE, related_name="members")
    user = models.ForeignKey(User, models.CASCADE, related_name="group_members")
    external = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "user"], name="group_member_once")]


class ApiToken(AbstractAuthToken):
    """A knox token (only its SHA-512 is kept) with what its owner recognizes it by.

    The token of a job has its `job_id` and `vc_id`: it acts as the owner of the job, in that
    virtual cluster only, until the job has ended (see
    `jobs.submission.followers`)."""

    public_id = models.UUIDField(default=uuid7, unique=True, editable=False)
    name = models.CharField(max_length=100)
    last4 = models.CharField(max_length=4)  # end of the token itself: 16 of its 256 bits
    scope = models.CharField(max_length=8, choices=Scope.choices, default=Scope.ADMIN)
    last_used_at = models.DateTimeField(null=True)  # to the hour
    job_id = models.UUIDField(null=True, unique=True)
    vc_id = models.UUIDField(null=True)

    def __str__(self) -> str:
        return self.name


class DeviceLogin(Entity):
    """A program that asks to be logged in by a user who reads a short code to the page (RFC 8628).
    Both codes are stored as digests; the token is made when the program fetches it."""

    device_digest = models.CharField(max_length=64, unique=True)
    code_digest = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=100)  # of the token
    scope = models.CharField(max_length=8, choices=Scope.choices)
    expires_in_s = models.PositiveIntegerField(null=True)  # of the token
    address = models.CharField(max_length=64)
    user_agent = models.CharField(max_length=200)
    expires_at = models.DateTimeField(db_index=True)
    polled_at = models.DateTimeField(null=True)
    user = models.ForeignKey(User, models.CASCADE, null=True, related_name="+")  # who decided
    allowed = models.BooleanField(null=True)


class BrowserSession(Entity):
    """What its user sees of a session of Django's; see `sessions`. `sign_outs` is that of the user
    when it was used last: a session from before a later one is over."""

    session_key = models.CharField(max_length=40, unique=True)
    user = models.ForeignKey(User, models.CASCADE, related_name="+")
    sign_outs = models.PositiveIntegerField()
    address = models.CharField(max_length=64)
    user_agent = models.CharField(max_length=200)
    last_seen_at = models.DateTimeField()
