"""Security keys and passkeys (WebAuthn) as second factor, and passkeys as a login of their own.

The keys are rows of `allauth.mfa`; fido2 checks signatures, the origin and the challenge. What a
server has to remember of a challenge travels sealed through the browser and is taken once, so that
no one can fill a table of sessions from the login page.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import redis
import structlog
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.internal.auth import WebAuthn, get_credentials
from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from fido2.server import Fido2Server
from fido2.utils import websafe_decode
from fido2.webauthn import (
    AuthenticationResponse,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)
from rest_framework.request import Request

from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core import encryption
from skep_platform.core.errors import (
    Conflict,
    NotFound,
    SkepError,
    Unauthorized,
    Unavailable,
)
from skep_platform.env_settings import is_loopback

log = structlog.get_logger(__name__)
WEBAUTHN = Authenticator.Type.WEBAUTHN
CHALLENGE_S = 300
MAX_KEYS = 10
MAX_CREDENTIAL_CHARS = 20_000
REGISTER, SECOND_FACTOR, LOGIN = "register", "second_factor", "login"
VERIFIED, PREFERRED = (
    UserVerificationRequirement.REQUIRED,
    UserVerificationRequirement.PREFERRED,
)


def host_of(request: Request | HttpRequest) -> str:
    """Return the host that keys belong to. Browsers make none for addresses in digits, and without
    TLS only for localhost."""
    asked = request.get_host().partition(":")[0]
    return (
        "localhost" if asked == "localhost" else urlsplit(settings.SKEP_PUBLIC_URL).hostname or ""
    )


def is_supported(request: Request | HttpRequest) -> bool:
    """Return whether browsers make keys for the address of this server."""
    host = host_of(request)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or settings.SKEP_PUBLIC_URL.startswith("https://")
    return False


def of_user(user: User) -> list[dict[str, Any]]:
    """Return what the settings page shows of the user's keys, oldest first."""
    return [
        {
            "id": row.pk,
            "name": row.data["name"],
            "passkey": bool(row.data.get("passkey")),
            "created_at": row.created_at,
            "last_used_at": row.last_used_at,
        }
        for row in Authenticator.objects.filter(user=user, type=WEBAUTHN).order_by("pk")
    ]


def start_registration(request: Request, user: User, passkey: bool) -> dict[str, Any]:
    """Return what the browser makes a key from, and the sealed challenge. A passkey is found
    without a user name, and its owner is verified by PIN or biometrics. Raises Conflict
    `too_many_keys` and `keys_not_supported`."""
    if not is_supported(request):
        message = "Browsers make keys only where Skep has a host name and TLS; ask an admin."
        raise Conflict(message, code="keys_not_supported")
    known = get_credentials(user)
    if len(known) >= MAX_KEYS:
        message = f"You have {MAX_KEYS} keys; remove one first."
        raise Conflict(message, code="too_many_keys", most=MAX_KEYS)
    name = user.get_username()
    options, state = _server(request).register_begin(
        PublicKeyCredentialUserEntity(id=str(user.pk).encode(), name=name, display_name=name),
        known,
        ResidentKeyRequirement.REQUIRED if passkey else ResidentKeyRequirement.DISCOURAGED,
        VERIFIED if passkey else PREFERRED,
    )
    return {
        "options": dict(options)["publicKey"],
        "state": _seal(REGISTER, state, user, passkey=passkey),
    }


@transaction.atomic
def register(
    request: Request, user: User, name: str, credential: Mapping[str, Any], sealed: str
) -> Authenticator:
    """Keep a key that the browser made. Raises SkepError `key_refused`, Conflict `key_known`."""
    found = _open(REGISTER, sealed, user)
    User.objects.select_for_update(no_key=True).get(pk=user.pk)  # counted one at a time
    try:
        _bounded(credential)
        made = RegistrationResponse.from_dict(credential)
        binding = _server(request).register_complete(found["state"], made)
        assert binding.credential_data is not None
    except Exception as error:  # the library has an exception for each kind of garbage
        raise _refused(error) from None
    known = get_credentials(user)
    if len(known) >= MAX_KEYS or any(
        key.credential_id == binding.credential_data.credential_id for key in known
    ):
        raise Conflict("This key is known already.", code="key_known")
    row = WebAuthn.add(user, name, dict(credential)).instance
    row.data |= {"passkey": found["passkey"], "counter": binding.counter}
    row.save(update_fields=["data"])
    audit.record("mfa.key.create", "user", user.pk, user.get_username(), key=name)
    return row


@transaction.atomic
def rename(user: User, key_id: int, name: str) -> None:
    """Raises NotFound."""
    row = _key_of(user, key_id)
    before, row.data["name"] = row.data["name"], name
    row.save(update_fields=["data"])
    audit.record("mfa.key.update", "user", user.pk, user.get_username(), key=name, before=before)


@transaction.atomic
def remove(user: User, key_id: int) -> None:
    """Raises NotFound."""
    row = _key_of(user, key_id)
    audit.record("mfa.key.delete", "user", user.pk, user.get_username(), key=row.data["name"])
    row.delete()
    if not Authenticator.objects.filter(user=user).exclude(type="recovery_codes").exists():
        Authenticator.objects.filter(user=user).delete()


def _key_of(user: User, key_id: int) -> Authenticator:
    rows = Authenticator.objects.select_for_update().filter(user=user, type=WEBAUTHN, pk=key_id)
    row = rows.first()
    if row is None:
        raise NotFound("You have no such key.")
    return row


def challenge(request: Request | HttpRequest, user: User | None = None) -> dict[str, Any]:
    """Return what a browser signs: with a key of this user, or with any passkey."""
    keys = get_credentials(user) if user else None
    purpose, verification = (SECOND_FACTOR, PREFERRED) if user else (LOGIN, VERIFIED)
    options, state = _server(request).authenticate_begin(keys, verification)
    return {"options": dict(options)["publicKey"], "state": _seal(purpose, state, user)}


def check(request: Request | HttpRequest, user: User, answer: Mapping[str, Any]) -> None:
    """Check the second factor of a user whose password was right. Raises Unauthorized
    `key_refused`."""
    found = _open(SECOND_FACTOR, str(answer.get("state", "")), user)
    _verify(request, user, answer.get("credential"), found["state"])


def user_of_passkey(request: Request, credential: Mapping[str, Any], sealed: str) -> User:
    """Return the user whose passkey signed the challenge. Raises Unauthorized `key_refused`."""
    found = _open(LOGIN, sealed, None)
    try:
        handle = int(websafe_decode(credential["response"]["userHandle"]).decode())
        user = User.objects.get(pk=handle, is_active=True)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, User.DoesNotExist):
        raise _unknown() from None
    row = _verify(request, user, credential, found["state"])
    if not row.data.get("passkey"):
        raise _unknown()
    return user


@transaction.atomic
def _verify(
    request: Request | HttpRequest, user: User, credential: Any, state: Mapping[str, Any]
) -> Authenticator:
    rows = list(Authenticator.objects.select_for_update().filter(user=user, type=WEBAUTHN))
    try:
        _bounded(credential)
        answer = AuthenticationResponse.from_dict(credential)
        keys = [row.wrap().authenticator_data.credential_data for row in rows]
        used = _server(request).authenticate_complete(state, keys, answer)
        [row] = [
            row
            for row, key in zip(rows, keys, strict=True)
            if key.credential_id == used.credential_id
        ]
        counter = answer.response.authenticator_data.counter
    except Exception as error:  # the library has an exception for each kind of garbage
        log.info("key_refused", reason=type(error).__name__)
        raise _unknown() from None
    if counter and counter <= row.data.get("counter", 0):
        log.warning("key_cloned", user=user.pk, key=row.pk)
        raise _unknown()
    row.data["counter"], row.last_used_at = counter, timezone.now()
    row.save(update_fields=["data", "last_used_at"])
    return row


def _server(request: Request | HttpRequest) -> Fido2Server:
    host = host_of(request)
    local = is_loopback(host)
    own = urlsplit(settings.SKEP_PUBLIC_URL)

    def is_ours(origin: str) -> bool:
        parts = urlsplit(origin)
        same = (parts.scheme, parts.netloc) == (own.scheme, own.netloc)
        return parts.hostname == host and (local or same)

    return Fido2Server(PublicKeyCredentialRpEntity(id=host, name="Skep"), verify_origin=is_ours)


def _seal(purpose: str, state: Any, user: User | None, **more: Any) -> str:
    body = {
        "purpose": purpose,
        "state": state,
        "user": user.pk if user else None,
        "until": time.time() + CHALLENGE_S,
        "id": uuid4().hex,
        **more,
    }
    return encryption.seal(json.dumps(body).encode()).decode()


def _open(purpose: str, sealed: str, user: User | None) -> dict[str, Any]:
    """Return what was sealed, once. Raises Unauthorized `key_refused`, Unavailable."""
    try:
        found: dict[str, Any] = json.loads(encryption.open(sealed.encode()))
    except (SkepError, ValueError):
        raise _unknown() from None
    wanted = (purpose, user.pk if user else None)
    if (found["purpose"], found["user"]) != wanted or found["until"] < time.time():
        raise _unknown()
    name = hashlib.sha256(found["id"].encode()).hexdigest()[:32]
    try:
        fresh = cache.add(f"skep:webauthn:{name}", 1, CHALLENGE_S + 60)
    except redis.RedisError:
        message = "Keys cannot be checked now; try again, or use a code."
        raise Unavailable(message, code="keys_unavailable") from None
    if not fresh:
        raise _unknown()
    return found


def _bounded(credential: Any) -> None:
    if not isinstance(credential, Mapping) or len(json.dumps(credential)) > MAX_CREDENTIAL_CHARS:
        raise ValueError("no credential")


def _unknown() -> Unauthorized:
    message = "The key was not accepted, or it took too long; try again."
    return Unauthorized(message, code="key_refused")


def _refused(error: Exception) -> SkepError:
    log.info("key_refused", reason=type(error).__name__)
    return SkepError("The key was not accepted; try again.", code="key_refused")
