"""Single sign-on by OpenID Connect: the authorization code flow with PKCE, state and nonce.

The provider says who someone is and which groups of ours to join, and nothing else: no account is
ever found by its name or e-mail, because whoever sets these at the provider would take it over.
Requests go to the host of the issuer (and SKEP_OIDC_HOSTS) only, and follow no redirect.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import jwt
import structlog
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.core.cache import cache
from django.utils.crypto import constant_time_compare

from skep_platform.accounts import external
from skep_platform.accounts.models import User
from skep_platform.audit import refusals
from skep_platform.core import encryption
from skep_platform.core.errors import Conflict, SkepError, Unavailable
from skep_platform.core.serving import give_connection_back

log = structlog.get_logger(__name__)
# Signatures by a key of the provider: none, or one by the client's secret, would prove nothing.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
FLOW_S = 600  # how long a user may take at the provider
TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 512 * 1024
CONFIGURATION_S = 300
LEEWAY_S = 60  # between the clocks
MAX_GROUPS = 1000


@dataclass(frozen=True, slots=True)
class Flow:
    """What a browser keeps, sealed, while its user is at the provider."""

    state: str
    nonce: str
    verifier: str
    next: str
    started: float
    link: int = 0  # the id of the user who links its account; 0: a login

    def seal(self) -> str:
        return encryption.seal(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def open(cls, sealed: str, state: str) -> Flow:
        """Raises SkepError `sso_state` unless this browser began the flow with this state less than
        FLOW_S ago."""
        try:
            flow = cls(**json.loads(encryption.open(sealed.encode())))
        except (SkepError, ValueError, TypeError):
            flow = None
        if flow is None or not constant_time_compare(flow.state, state):
            raise SkepError("This login was not begun in this browser.", code="sso_state")
        if time.time() - flow.started > FLOW_S:
            raise SkepError("The login took too long; try again.", code="sso_state")
        return flow


def is_on() -> bool:
    """Return whether a provider is set."""
    return bool(settings.SKEP_OIDC_ISSUER)


def redirect_uri() -> str:
    """Return the address that the provider sends its users back to."""
    return f"{settings.SKEP_PUBLIC_URL.rstrip('/')}/api/v1/auth/sso/callback"


def start(next_page: str, link: int = 0) -> tuple[str, Flow]:
    """Return the address at the provider to send a browser to, and what the browser has to keep.
    `link`: the id of the user who links its account. Raises Conflict `sso_off`, Unavailable
    `sso_unavailable`."""
    configuration = _configuration()
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    flow = Flow(state, nonce, verifier, next=next_page[:1000], started=time.time(), link=link)
    challenge = hashlib.sha256(flow.verifier.encode()).digest()
    query = {
        "response_type": "code",
        "client_id": settings.SKEP_OIDC_CLIENT_ID,
        "redirect_uri": redirect_uri(),
        "scope": " ".join(_scopes(configuration)),
        "state": flow.state,
        "nonce": flow.nonce,
        "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    endpoint = _endpoint(configuration, "authorization_endpoint")
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", flow


def finish(flow: Flow, code: str) -> User:
    """Return the user for whom the provider issued this code, made at the first login. Raises
    Unavailable `sso_unavailable`, SkepError `sso_token_invalid` and `sso_claim_missing`, Conflict
    `account_exists`, Forbidden `account_inactive`."""
    return _user(_claims(flow, code))


def finish_link(flow: Flow, code: str, user: User) -> None:
    """Link the account at the provider for which it issued this code to a user who began this flow.
    Raises what `finish` and `external.link` do, and SkepError `sso_state`."""
    if not user.is_active or user.pk != flow.link:
        raise SkepError("This link was begun by another user.", code="sso_state")
    external.link(user, settings.SKEP_OIDC_ISSUER, _subject(_claims(flow, code)))


def _claims(flow: Flow, code: str) -> dict[str, Any]:
    configuration = _configuration()
    body = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri(),
        "code_verifier": flow.verifier,
    }
    basic = (settings.SKEP_OIDC_CLIENT_ID, settings.SKEP_OIDC_CLIENT_SECRET)
    methods = configuration.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    if "client_secret_basic" not in methods:
        body |= {"client_id": basic[0], "client_secret": basic[1]}
        answer = _fetch(_endpoint(configuration, "token_endpoint"), data=body)
    else:
        answer = _fetch(_endpoint(configuration, "token_endpoint"), data=body, auth=basic)
    claims = _verified(configuration, str(answer.get("id_token", "")), flow.nonce)
    if "userinfo_endpoint" in configuration and answer.get("access_token"):
        headers = {"Authorization": f"Bearer {answer['access_token']}"}
        more = _fetch(_endpoint(configuration, "userinfo_endpoint"), headers=headers)
        if more.get("sub") != claims["sub"]:
            raise _invalid("its user information is about another user")
        claims = {**more, **claims}
    return claims


def _verified(configuration: Mapping[str, Any], token: str, nonce: str) -> dict[str, Any]:
    """Return the claims of an ID token: signed by the provider, for us, now, for this flow."""
    keys = _fetch(_endpoint(configuration, "jwks_uri"))
    try:
        header = jwt.get_unverified_header(token)
        found = jwt.PyJWKSet.from_dict(keys).keys
        usable = [key for key in found if header.get("kid") in (None, key.key_id)]
        if header.get("alg") not in ALGORITHMS or not usable:
            raise _invalid("no key of the provider made its signature")
        claims: dict[str, Any] = jwt.decode(
            token,
            usable[0],
            algorithms=[header["alg"]],
            audience=settings.SKEP_OIDC_CLIENT_ID,
            issuer=settings.SKEP_OIDC_ISSUER,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iat", "iss", "aud", "sub"]},
        )
    except jwt.PyJWTError as error:
        raise _invalid(type(error).__name__) from None
    if not constant_time_compare(str(claims.get("nonce", "")), nonce):
        raise _invalid("it belongs to another login")
    if claims.get("azp", settings.SKEP_OIDC_CLIENT_ID) != settings.SKEP_OIDC_CLIENT_ID:
        raise _invalid("it was issued to another client")
    return claims


def _subject(claims: Mapping[str, Any]) -> str:
    subject = str(claims["sub"])
    if not 0 < len(subject) <= external.MAX_UID:
        raise _invalid("its subject is too long")
    return subject


def _user(claims: Mapping[str, Any]) -> User:
    subject = _subject(claims)
    username = str(claims.get(settings.SKEP_OIDC_USERNAME_CLAIM) or "")
    known = SocialAccount.objects.filter(provider=settings.SKEP_OIDC_ISSUER, uid=subject)
    if not username and not known.exists():
        message = f"The identity provider names no {settings.SKEP_OIDC_USERNAME_CLAIM}."
        raise SkepError(message, code="sso_claim_missing")
    named = _groups(claims) if settings.SKEP_OIDC_GROUPS_CLAIM else None
    # Some providers say it as text.
    verified = str(claims.get("email_verified", True)).lower() == "true"
    email = external.valid_email(claims.get("email")) if verified else ""
    return external.user_of(settings.SKEP_OIDC_ISSUER, subject, username, email, named)


def _groups(claims: Mapping[str, Any]) -> list[str]:
    """Return the names of the provider's groups; a claim that is missing is an empty one."""
    named = claims.get(settings.SKEP_OIDC_GROUPS_CLAIM)
    if isinstance(named, str):
        named = [named]
    if not isinstance(named, list):
        return []
    return [name for name in named[:MAX_GROUPS] if isinstance(name, str)]


def _scopes(configuration: Mapping[str, Any]) -> list[str]:
    known = configuration.get("scopes_supported") or []
    wanted = ("profile", "email", settings.SKEP_OIDC_GROUPS_CLAIM)
    return ["openid", *(scope for scope in wanted if scope in known)]


def _configuration() -> dict[str, Any]:
    issuer = settings.SKEP_OIDC_ISSUER
    if not issuer:
        raise Conflict("Single sign-on is not set up on this server.", code="sso_off")
    key = f"skep:oidc:{hashlib.sha256(issuer.encode()).hexdigest()[:32]}"
    known = cache.get(key)
    if known is None:
        known = _fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if known.get("issuer") != issuer:
            raise _unavailable("its configuration names another issuer")
        cache.set(key, known, CONFIGURATION_S)
    return dict(known)


def _endpoint(configuration: Mapping[str, Any], name: str) -> str:
    """Return an address of the provider. Raises Unavailable for one on a host that the admin did
    not name: the configuration may not send our secrets and requests elsewhere."""
    address, issuer = str(configuration.get(name, "")), urlsplit(settings.SKEP_OIDC_ISSUER)
    parts = urlsplit(address)
    same = (parts.scheme, parts.netloc) == (issuer.scheme, issuer.netloc)
    if not same and not (parts.scheme == "https" and parts.netloc in settings.SKEP_OIDC_HOSTS):
        raise _unavailable(f"its {name} is on the host {parts.netloc[:100]!r}, see SKEP_OIDC_HOSTS")
    return address


def _fetch(address: str, **request: Any) -> dict[str, Any]:
    """Return the JSON object at an address; a POST where there is `data`. Raises Unavailable."""
    give_connection_back()  # a provider that hangs would take all of them
    method = "POST" if "data" in request else "GET"
    content = b""
    try:
        with (
            httpx.Client(follow_redirects=False, timeout=TIMEOUT_S) as client,
            client.stream(method, address, **request) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                raise _unavailable(f"{urlsplit(address).path} answered {answer.status_code}")
            for chunk in answer.iter_bytes():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise _unavailable("its answer is too long")
        found = json.loads(content)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as error:
        raise _unavailable(type(error).__name__) from None
    if not isinstance(found, dict):
        raise _unavailable("its answer is no JSON object")
    return found


def _unavailable(reason: str) -> Unavailable:
    log.warning("sso_unavailable", reason=reason)
    message = f"The identity provider cannot be used now: {reason}."
    return Unavailable(message, code="sso_unavailable")


def _invalid(reason: str) -> SkepError:
    log.warning("sso_token_invalid", reason=reason)
    return SkepError(f"The provider's ID token is refused: {reason}.", code="sso_token_invalid")


def note_failure(code: str, linking: bool, username: str) -> None:
    """Record a refused login, or a refused link of a user who is logged in, in the audit log; of
    one user or address so many a minute."""
    if linking:
        refusals.record("user.sso.link", "user", username, None, {"code": code})
    else:
        refusals.record("login.failed", "user", "", None, {"code": code, "method": "sso"})
