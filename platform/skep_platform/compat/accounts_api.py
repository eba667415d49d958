"""OpenPAI's routes of logins, tokens and users."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.http import HttpResponseRedirect
from django.utils import timezone
from rest_framework import serializers
from rest_framework.permissions import AllowAny, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from skep_platform import __version__
from skep_platform.accounts import current_user, groups, mfa, queries, services
from skep_platform.accounts.api import PasswordField
from skep_platform.accounts.models import ApiToken, GroupMember, Scope, User
from skep_platform.compat.base import (
    ClientAuthentication,
    CompatView,
    Fields,
    PublicView,
    done,
    wrapped,
)
from skep_platform.core.api import validated
from skep_platform.core.errors import Forbidden, NotFound
from skep_platform.storage.models import StorageGrant
from skep_platform.tenancy import memberships
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import Membership, Role, RoleGrant, VirtualCluster

DAY_S = 86_400
LOGIN_TOKEN = "OpenPAI login"  # noqa: S105 names of tokens
APPLICATION_TOKEN = "OpenPAI application"  # noqa: S105
# Clients log in for every run and never log out: of such tokens the newest ones hold.
LOGIN_TOKENS = 20
MOST_USERS = 10_000
API_VERSION = "v1.8.0"  # of OpenPAI: what clients compare
# What OpenPAI keeps in `extension` has no place here.
NOT_KEPT = "extension is not kept"


class PaiInfoView(PublicView):
    def get(self, request: Request) -> Response:
        return Response(
            {
                "name": "PAI RESTful API",
                "version": API_VERSION,
                "launcherType": "k8s",
                "authnMethod": "OIDC" if _only_sso() else "basic",
                "skepVersion": __version__,
            }
        )


def _only_sso() -> bool:
    by_password = settings.SKEP_PASSWORD_LOGIN or settings.SKEP_LDAP_URI
    return bool(settings.SKEP_OIDC_ISSUER) and not by_password


class PaiAuthnInfoView(PublicView):
    def get(self, request: Request) -> Response:
        kind, method = ("OIDC", "get") if _only_sso() else ("basic", "post")
        login = "/api/v2/authn/oidc/login" if _only_sso() else "/api/v2/authn/basic/login"
        return Response({"authn_type": kind, "loginURI": login, "loginURIMethod": method})


class LoginFields(Fields):
    username = serializers.CharField(max_length=150)
    password = PasswordField()
    code = serializers.CharField(max_length=40, required=False, allow_blank=True)
    expiration = serializers.IntegerField(min_value=60, max_value=7 * DAY_S, required=False)


class PaiLoginView(PublicView):
    missing = "NoUserError"

    def post(self, request: Request) -> Response:
        """Exchange a name and a password for a token, of the scope `admin`."""
        body = validated(LoginFields, request)
        user, second = services.check_login(
            request, body["username"], body["password"], body.get("code", "")
        )
        if mfa.is_required(user) and not second:
            message = "Log in on the web page first, and set up MFA there."
            raise Forbidden(message, code="mfa_setup_required")
        services.note_login(user)
        secret = _login_token(user, body.get("expiration", DAY_S))
        return Response({"token": secret, "user": user.get_username(), "admin": user.is_admin})


@transaction.atomic
def _login_token(user: User, seconds: float) -> str:
    older = queries.tokens_of(user).filter(name=LOGIN_TOKEN)[LOGIN_TOKENS - 1 :]
    for token in list(older):
        services.delete_token(user, token.public_id)
    return services.create_token(user, LOGIN_TOKEN, seconds)[1]


class PaiLogoutView(CompatView):
    token_scope = Scope.READ

    def delete(self, request: Request) -> Response:
        """Delete the token of the request."""
        services.note_logout(current_user.user(request))
        assert isinstance(request.auth, ApiToken)
        services.revoke_token(request.auth)
        return done("Logout successfully.")


class PaiOidcView(PublicView):
    """Lead the browser to Skep's own login, which knows single sign-on. The user makes a token on
    the page of tokens and gives it to the client: an address of the client's choice gets none."""

    def get(self, request: Request) -> HttpResponseRedirect:
        return HttpResponseRedirect("/login")

    def post(self, request: Request) -> HttpResponseRedirect:
        return HttpResponseRedirect("/login")


class PaiTokensView(CompatView):
    def get(self, request: Request) -> Response:
        """List the caller's tokens by their ids: the tokens themselves are not stored."""
        tokens = queries.tokens_of(current_user.user(request))
        return Response({"tokens": [str(token.public_id) for token in tokens]})


class PaiApplicationTokenView(CompatView):
    def post(self, request: Request) -> Response:
        """Make a token of the scope `submit`, which ends no later than the token of the request."""
        user = current_user.user(request)
        if user.is_service_account:
            message = "VC admins make the tokens of a service account."
            raise Forbidden(message, code="token_by_token")
        assert isinstance(request.auth, ApiToken)
        left = None
        if request.auth.expiry is not None:
            left = (request.auth.expiry - timezone.now()).total_seconds() - 1
        secret = services.create_token(user, APPLICATION_TOKEN, left, Scope.SUBMIT)[1]
        return Response({"token": secret, "application": True})


class PaiTokenLoginView(PaiLoginView):
    """The login of version 1, which also lists tokens."""

    def get_authenticators(self) -> list[Any]:
        if self.request is not None and self.request.method == "POST":
            return []
        return [ClientAuthentication()]

    def get_permissions(self) -> list[Any]:
        return [AllowAny()] if self.request.method == "POST" else [IsAuthenticated()]

    def get(self, request: Request) -> Response:
        return PaiTokensView.get(self, request)  # type: ignore[arg-type]


class PaiTokenView(CompatView):
    def delete(self, request: Request, token: str) -> Response:
        """Revoke a token of the caller's, by its id or by itself."""
        user = current_user.user(request)
        try:
            services.delete_token(user, _id_of(user, token))
        except NotFound as error:
            raise Forbidden(error.message) from None
        return done("revoke successfully")


def _id_of(user: User, token: str) -> UUID:
    try:
        return UUID(token)
    except ValueError:
        found = queries.living_token(token)
    if found is None or found.user_id != user.pk:
        raise NotFound("You have no such token.")
    return found.public_id


class PaiTokenCheckView(CompatView):
    job_tokens = True

    def get(self, request: Request) -> Response:
        """Say whose token this is."""
        user, token = current_user.user(request), request.auth
        assert isinstance(token, ApiToken)
        ends = int(token.expiry.timestamp()) if token.expiry else None
        return Response(
            {
                "username": user.get_username(),
                "application": token.scope != Scope.ADMIN,
                "admin": user.is_admin and token.scope == Scope.ADMIN,
                "iat": int(token.created.timestamp()),
                "exp": ends,
            }
        )


def shown(users: Sequence[User]) -> list[dict[str, Any]]:
    """Return users as OpenPAI shows them. Three queries for all of them."""
    ids = [user.pk for user in users]
    named, vcs = defaultdict(list), defaultdict(list)
    storages: dict[int, set[str]] = defaultdict(set)
    joined = GroupMember.objects.filter(user__in=ids).order_by("group__name")
    for pk, name in joined.values_list("user_id", "group__name"):
        named[pk].append(name)
    rights = Membership.objects.filter(user__in=ids, role__in=Membership.SUBMITTERS)
    for pk, name in rights.order_by("vc__name").values_list("user_id", "vc__name"):
        vcs[pk].append(name)
    by_vc = StorageGrant.objects.filter(vc__memberships__user__in=ids)
    for pk, name in by_vc.values_list("vc__memberships__user_id", "storage__name"):
        storages[pk].add(name)
    by_group = StorageGrant.objects.filter(group__members__user__in=ids)
    for pk, name in by_group.values_list("group__members__user_id", "storage__name"):
        storages[pk].add(name)
    return [
        {
            "username": user.get_username(),
            "grouplist": named[user.pk],
            "email": user.email,
            "extension": {},
            "admin": user.is_superuser,
            "virtualCluster": vcs[user.pk],
            "storageConfig": sorted(storages[user.pk]),
        }
        for user in users
    ]


class VcNames(serializers.ListField):
    child = serializers.CharField(max_length=63)


class NewUser(Fields):
    username = serializers.CharField(max_length=150)
    password = PasswordField()
    email = serializers.EmailField(allow_blank=True, required=False, max_length=254)
    admin = serializers.BooleanField(required=False)
    virtualCluster = VcNames(required=False, max_length=1000)


class UserFields(Fields):
    username = serializers.CharField(max_length=150)
    password = PasswordField(required=False)
    email = serializers.EmailField(allow_blank=True, required=False, max_length=254)
    admin = serializers.BooleanField(required=False)
    virtualCluster = VcNames(required=False, max_length=1000)


class UserBase(CompatView):
    missing = "NoUserError"


class PaiUsersView(UserBase):
    def get(self, request: Request) -> Response:
        """List all users for an admin; others see themselves."""
        user = current_user.user(request)
        rows = queries.users() if user.is_admin else queries.users().filter(pk=user.pk)
        return Response(shown(list(rows[:MOST_USERS])))

    def post(self, request: Request) -> Response:
        """Create a user, with roles in virtual clusters. For admins."""
        admin = current_user.admin(request)
        body = validated(NewUser, request)
        with transaction.atomic():
            services.create_user(
                admin,
                body["username"],
                body["password"],
                email=body.get("email", ""),
                is_admin=body.get("admin", False),
            )
            set_virtual_clusters(admin, body["username"], body.get("virtualCluster", ()))
        return done("User is created successfully", 201)

    def put(self, request: Request) -> Response:
        """Change a user: the fields that are there. For admins."""
        admin = current_user.admin(request)
        body = wrapped(UserFields, request)
        username = _named(body)
        _update(admin, username, body)
        return done(f"update user {username} successfully.", 201)


def _named(body: dict[str, Any]) -> str:
    if "username" not in body:
        raise serializers.ValidationError({"username": ["This field is required."]})
    return str(body["username"])


@transaction.atomic
def _update(admin: User, username: str, body: dict[str, Any]) -> None:
    names = {"email": "email", "password": "password", "admin": "is_admin"}
    changes = {names[field]: value for field, value in body.items() if field in names}
    if changes:
        services.update_user(admin, username, changes)
    else:
        queries.find_user(username)
    if "virtualCluster" in body:
        set_virtual_clusters(admin, username, body["virtualCluster"])


def set_virtual_clusters(admin: User, username: str, names: Iterable[str]) -> None:
    """Give a user the right to run jobs in these virtual clusters, and take back those in others
    that the user has without a group. Raises NotFound, Conflict `last_vc_admin`."""
    wanted = {name: find_vc(admin, name) for name in dict.fromkeys(names)}
    user = queries.find_user(username)
    own = RoleGrant.objects.filter(user=user)
    held: dict[str, str] = dict(own.values_list("vc__name", "role"))
    for name, vc in wanted.items():
        if held.get(name) not in Membership.SUBMITTERS:
            memberships.set_member(admin, vc, username, Role.MEMBER)
    for vc in VirtualCluster.objects.filter(name__in=held.keys() - wanted.keys()):
        memberships.remove_member(admin, vc, username)


def find_vc(user: User, name: str) -> VirtualCluster:
    """Return a virtual cluster. Raises NotFound, as one of OpenPAI."""
    try:
        return tenancy.find(user, name)
    except NotFound as error:
        raise NotFound(error.message, code="no_virtual_cluster") from None


class MeChange(Fields):
    username = serializers.CharField(max_length=150)
    email = serializers.EmailField(allow_blank=True, required=False, max_length=254)
    oldPassword = PasswordField(required=False)
    newPassword = PasswordField(required=False)


class PaiMeView(UserBase):
    def put(self, request: Request) -> Response:
        """Change the caller's own password, by which all its tokens end. The address of its e-mail
        is confirmed on the page, and never changed by a token."""
        user, body = current_user.user(request), wrapped(MeChange, request)
        if body.get("username", user.get_username()) != user.get_username():
            raise Forbidden("These are not you.")
        if body.get("email", user.email) != user.email:
            raise Forbidden("Change your e-mail on the page: it is confirmed there.")
        if "newPassword" in body:
            old = body.get("oldPassword", "")
            services.change_own_password(request, user, old, body["newPassword"])
        return done(f"update user {user.get_username()} successfully.", 201)


class PaiUserView(UserBase):
    def get(self, request: Request, username: str) -> Response:
        """Get a user: oneself, or any for an admin."""
        return Response(shown([_visible(request, username)])[0])

    def delete(self, request: Request, username: str) -> Response:
        services.delete_user(current_user.admin(request), username)
        return done("user is removed successfully")


def _visible(request: Request, username: str) -> User:
    user = current_user.user(request)
    if not user.is_admin and username != user.get_username():
        raise NotFound(f"User {username} is not found.")
    return queries.find_user(username)


class GroupName(Fields):
    groupname = serializers.CharField(max_length=63)


class GroupNames(Fields):
    grouplist = serializers.ListField(child=serializers.CharField(max_length=63), max_length=1000)


class PaiUserGroupView(UserBase):
    def put(self, request: Request, username: str) -> Response:
        admin = current_user.admin(request)
        name = validated(GroupName, request)["groupname"]
        groups.add_members(admin, _group(name), [username])
        return done(f"update user {username} successfully.", 201)

    def delete(self, request: Request, username: str) -> Response:
        admin = current_user.admin(request)
        name = validated(GroupName, request)["groupname"]
        groups.remove_member(admin, _group(name), username)
        return done(f"update user {username} successfully.", 201)


class PaiUserGroupsView(UserBase):
    def put(self, request: Request, username: str) -> Response:
        """Set the groups of a user. For admins."""
        admin = current_user.admin(request)
        _set_groups(admin, username, validated(GroupNames, request)["grouplist"])
        return done(f"update user {username} successfully.", 201)


@transaction.atomic
def _set_groups(admin: User, username: str, names: Sequence[str]) -> None:
    held = set(groups.names_of(queries.find_user(username)))
    for name in dict.fromkeys(names):
        if name not in held:
            groups.add_members(admin, _group(name), [username])
    for name in sorted(held - set(names)):
        groups.remove_member(admin, groups.find(name), username)


def _group(name: str) -> Any:
    try:
        return groups.find(name)
    except NotFound as error:
        raise NotFound(error.message, code="no_group") from None


class PasswordFields(Fields):
    oldPassword = PasswordField(required=False)
    newPassword = PasswordField()


class EmailFields(Fields):
    email = serializers.EmailField(allow_blank=True, max_length=254)


class AdminFields(Fields):
    admin = serializers.BooleanField()


class VcFields(Fields):
    virtualCluster = VcNames(max_length=1000)


class PaiUserFieldView(UserBase):
    """One field of a user: `password` for oneself, all of them for admins."""

    BODIES: dict[str, tuple[type[Fields], str]] = {
        "email": (EmailFields, "email"),
        "admin": (AdminFields, "admin"),
        "virtualcluster": (VcFields, "virtualCluster"),
    }

    def put(self, request: Request, username: str, field: str) -> Response:
        user = current_user.user(request)
        if not user.is_admin and (field != "password" or username != user.get_username()):
            raise Forbidden("Non-admin is not allowed to do this operation.")
        if field == "password":
            body = validated(PasswordFields, request)
            if username == user.get_username():
                old = body.get("oldPassword", "")
                services.change_own_password(request, user, old, body["newPassword"])
            else:
                services.update_user(user, username, {"password": body["newPassword"]})
        elif field == "extension":
            queries.find_user(username)
            return done(f"update user {username} successfully: {NOT_KEPT}.", 201)
        else:
            kind, name = self.BODIES[field]
            _update(user, username, {name: validated(kind, request)[name]})
        return done(f"update user {username} successfully.", 201)
