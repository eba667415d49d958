"""Single sign-on against a real OpenID provider, and against one that lies."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
import respx
from allauth.socialaccount.models import SocialAccount
from cryptography.hazmat.primitives.asymmetric import rsa
from django.core.cache import cache
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, oidc_provider
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import PASSWORD, make_user, make_vc
from tests.support.webauthn import confirm

from skep_platform import env_settings
from skep_platform.accounts import groups
from skep_platform.accounts.models import User
from skep_platform.audit.models import AuditEntry
from skep_platform.tenancy import memberships

pytestmark = pytest.mark.django_db
CALLBACK = "http://127.0.0.1:8470/api/v1/auth/sso/callback"
MEI = {
    "sub": "user-1",
    "preferred_username": "mei",
    "email": "mei@example.org",
    "email_verified": True,
}


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """The issuer of a provider that runs."""
    with oidc_provider(CALLBACK) as issuer:
        yield issuer


@pytest.fixture
def sso(provider: str, settings: Any) -> str:
    configure(settings, provider)
    return provider


def configure(settings: Any, issuer: str) -> None:
    cache.clear()
    settings.SKEP_PUBLIC_URL = CALLBACK.removesuffix("/api/v1/auth/sso/callback")
    settings.SKEP_OIDC_ISSUER = issuer
    settings.SKEP_OIDC_CLIENT_ID = CLIENT_ID
    settings.SKEP_OIDC_CLIENT_SECRET = CLIENT_SECRET
    settings.SKEP_OIDC_GROUPS_CLAIM = "groups"


class Visitor(Api):
    """A browser that goes to the provider and comes back."""

    def to_callback(
        self, issuer: str, account: dict[str, Any], next_page: str = "", *, link: bool = False
    ) -> str:
        """Return the address that the provider sends the browser back to."""
        httpx.put(f"{issuer}/account", json=account, timeout=60).raise_for_status()
        if link:
            address = self.post("/me/sso").json()["url"]
        else:
            started = self.get("/auth/sso/start", **({"next": next_page} if next_page else {}))
            address = started["Location"]
        with httpx.Client(timeout=60) as browser:
            for _ in range(8):
                if address.startswith(CALLBACK):
                    return address
                answer = browser.get(address)
                assert answer.is_redirect, answer.text
                address = str(answer.next_request.url) if answer.next_request else ""
        raise AssertionError(f"the provider led to {address}")

    def come_back(self, address: str) -> str:
        """Return where the callback leads to."""
        return self.client.get(address.removeprefix("http://127.0.0.1:8470"))["Location"]

    def log_in(self, issuer: str, account: dict[str, Any], next_page: str = "") -> str:
        return self.come_back(self.to_callback(issuer, account, next_page))


def test_23_the_first_login_makes_an_account_with_the_least_rights(sso):
    make_vc("team")
    browser = Visitor()
    claims = MEI | {"groups": ["admins"], "is_admin": True, "is_superuser": True}
    assert browser.log_in(sso, claims, "/jobs?vc=a") == "/jobs?vc=a"
    me = browser.get("/me").json()
    assert (me["username"], me["email"]) == ("mei", "mei@example.org")
    assert (me["is_admin"], me["virtual_clusters"]) == (False, [])
    mei = User.objects.get(username="mei")
    assert not mei.has_usable_password()
    assert not mei.is_staff
    assert mei.last_login
    made = AuditEntry.objects.get(action="login.succeeded")
    assert (made.target_name, made.facts["method"]) == ("mei", "sso")


def test_a_second_login_finds_the_account_by_its_subject(sso):
    Visitor().log_in(sso, MEI)
    browser = Visitor()
    assert browser.log_in(sso, MEI | {"preferred_username": "renamed", "email": "x@y.org"}) == "/"
    assert browser.get("/me").json()["username"] == "mei"
    assert User.objects.count() == 1


def test_the_request_has_a_state_a_nonce_and_a_challenge(sso):
    address = Visitor().get("/auth/sso/start")["Location"]
    query = parse_qs(urlsplit(address).query)
    assert query["code_challenge_method"] == ["S256"]
    assert len({query[name][0] for name in ("state", "nonce", "code_challenge")}) == 3
    again = parse_qs(urlsplit(Visitor().get("/auth/sso/start")["Location"]).query)
    assert query["state"] != again["state"]
    assert query["nonce"] != again["nonce"]


@pytest.mark.parametrize("same", ["username", "email"])
def test_23_an_account_of_the_same_name_or_e_mail_is_not_taken_over(sso, same):
    taken = {"username": {"username": "Mei"}, "email": {"email": "MEI@example.org"}}[same]
    make_user(**({"username": "other", "admin": True} | taken))
    browser = Visitor()
    assert browser.log_in(sso, MEI) == "/login?refused=account_exists"
    assert browser.get("/me").status_code == 401
    assert not SocialAccount.objects.exists()
    assert User.objects.count() == 1


@pytest.mark.parametrize("verified", [False, "false"])
def test_23_an_unverified_e_mail_is_not_taken(sso, verified):
    browser = Visitor()
    make_user("other", email="mei@example.org")
    assert browser.log_in(sso, MEI | {"email_verified": verified}) == "/"
    assert browser.get("/me").json()["email"] == ""


def test_a_deactivated_user_stays_out(sso):
    Visitor().log_in(sso, MEI)
    User.objects.update(is_active=False)
    browser = Visitor()
    assert browser.log_in(sso, MEI) == "/login?refused=account_inactive"
    assert browser.get("/me").status_code == 401


def test_groups_follow_the_provider_at_each_login(sso):
    admin = make_user("root", admin=True)
    team = make_vc("team")
    groups.create(admin, "research", external_name="dept-research")
    memberships.set_group(None, team, "research", "member")
    browser = Visitor()
    browser.log_in(sso, MEI | {"groups": ["dept-research", "unknown"]})
    assert [vc["name"] for vc in browser.get("/me").json()["virtual_clusters"]] == ["team"]
    browser.log_in(sso, MEI | {"groups": []})
    assert browser.get("/me").json()["virtual_clusters"] == []
    browser.log_in(sso, MEI | {"groups": ["dept-research"]})
    browser.log_in(sso, MEI)  # no such claim: no group
    assert browser.get("/me").json()["virtual_clusters"] == []


def linking(user: User) -> Visitor:
    """The browser of a user who is logged in and has just given the password."""
    browser = Visitor()
    browser.client.force_login(user)
    confirm(browser)
    return browser


def link(browser: Visitor, issuer: str, account: dict[str, Any] = MEI) -> str:
    """Return where the provider leads back to, in the end."""
    return browser.come_back(browser.to_callback(issuer, account, link=True))


class TestLinking:
    def test_who_has_a_password_links_the_account_and_both_ways_lead_in(self, sso):
        ada = make_user("ada", email="ada@example.org")
        browser = linking(ada)
        assert browser.get("/me/sso").json()["linked"] is False
        assert link(browser, sso) == "/settings/security?linked=true"
        found = browser.get("/me/sso").json()
        assert (found["linked"], found["can_unlink"]) == (True, True)
        other = Visitor()
        assert other.log_in(sso, MEI) == "/"
        me = other.get("/me").json()
        assert (me["username"], me["email"]) == ("ada", "ada@example.org")
        body = {"username": "ada", "password": PASSWORD}
        assert Api().post("/auth/login", body).status_code == 200
        entry = AuditEntry.objects.get(action="user.sso.link")
        assert (entry.actor_name, entry.target_name) == ("ada", "ada")

    def test_a_name_in_use_is_refused_until_its_user_links_it(self, sso):
        mei = make_user("mei")
        assert Visitor().log_in(sso, MEI) == "/login?refused=account_exists"
        link(linking(mei), sso)
        browser = Visitor()
        assert browser.log_in(sso, MEI) == "/"
        assert browser.get("/me").json()["id"] == mei.pk

    def test_one_account_of_the_provider_is_one_user_here(self, sso):
        ada, eve = make_user("ada"), make_user("eve")
        link(linking(ada), sso)
        refused = "/settings/security?refused="
        assert link(linking(eve), sso) == f"{refused}sso_linked_elsewhere"
        entry = AuditEntry.objects.get(outcome="refused")
        assert (entry.action, entry.actor_name) == ("user.sso.link", "eve")
        assert (entry.target_name, entry.facts["code"]) == ("eve", "sso_linked_elsewhere")
        again = MEI | {"sub": "user-9"}
        assert link(linking(ada), sso, again) == f"{refused}sso_linked"
        assert SocialAccount.objects.count() == 1

    def test_the_browser_of_another_user_links_nothing(self, sso):
        ada, eve = make_user("ada"), make_user("eve")
        browser = linking(ada)
        address = browser.to_callback(sso, MEI, link=True)
        browser.client.force_login(eve)
        assert browser.come_back(address) == "/settings/security?refused=sso_state"
        browser = linking(ada)
        address = browser.to_callback(sso, MEI, link=True)
        browser.client.logout()
        assert "sso_state" in browser.come_back(address)
        stranger = linking(eve)
        assert "sso_state" in stranger.come_back(linking(ada).to_callback(sso, MEI, link=True))
        assert not SocialAccount.objects.exists()

    def test_a_session_left_open_and_a_token_cannot(self, sso):
        ada = make_user("ada")
        browser = Visitor()
        browser.client.force_login(ada)
        for answer in (browser.post("/me/sso"), browser.delete("/me/sso")):
            assert refusal(answer) == (403, "confirmation_required")
        assert refusal(Api(ada).post("/me/sso")) == (403, "session_required")

    def test_unlinking_leaves_the_password_and_ends_other_sessions(self, sso):
        browser = linking(make_user("ada"))
        link(browser, sso)
        other = Visitor()
        other.log_in(sso, MEI)
        assert browser.delete("/me/sso").status_code == 204
        assert browser.get("/me").status_code == 200
        assert other.get("/me").status_code == 401
        assert refusal(browser.delete("/me/sso")) == (404, "not_found")
        assert Visitor().log_in(sso, MEI) == "/"  # as a new user
        assert User.objects.count() == 2

    @pytest.mark.parametrize("why", ["no_password", "passwords_off"])
    def test_the_last_way_to_log_in_stays(self, sso, settings, why):
        if why == "no_password":
            browser = Visitor()
            browser.log_in(sso, MEI)
        else:
            browser = linking(make_user("ada"))
            link(browser, sso)
            settings.SKEP_PASSWORD_LOGIN = False
        assert browser.get("/me/sso").json()["can_unlink"] is False
        assert refusal(browser.delete("/me/sso")) == (409, "last_login_method")
        assert SocialAccount.objects.exists()


def test_logging_out_ends_the_session(sso):
    browser = Visitor()
    browser.log_in(sso, MEI)
    assert browser.post("/auth/logout").status_code == 204
    assert browser.get("/me").status_code == 401


def test_a_callback_works_only_in_the_browser_that_began_it_and_once(sso):
    victim, attacker = Visitor(), Visitor()
    address = attacker.to_callback(sso, MEI)
    assert victim.come_back(address) == "/login?refused=sso_state"
    victim.get("/auth/sso/start")
    assert victim.come_back(address) == "/login?refused=sso_state", "another flow's state"
    assert attacker.come_back(address) == "/"
    assert attacker.come_back(address) == "/login?refused=sso_state"
    assert victim.get("/me").status_code == 401


def test_who_is_refused_by_the_provider_is_refused(sso):
    assert Visitor().log_in(sso, {"sub": "refused"}) == "/login?refused=sso_refused"
    entry = AuditEntry.objects.get(action="login.failed")
    assert entry.facts["code"] == "sso_refused"


def test_a_user_without_a_name_is_refused(sso):
    nameless = {"sub": "user-2"}
    assert Visitor().log_in(sso, nameless) == "/login?refused=sso_claim_missing"
    hostile = {"sub": "user-3", "preferred_username": "a b<script>"}
    assert Visitor().log_in(sso, hostile) == "/login?refused=name_invalid"


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.test/", "//evil.test", "/\\evil.test", "javascript:alert(1)"]
)
def test_the_login_leads_to_no_other_site(sso, elsewhere):
    assert Visitor().log_in(sso, MEI, elsewhere) == "/"


def test_password_login_can_be_switched_off_but_for_admins(sso, settings):
    settings.SKEP_PASSWORD_LOGIN = False
    make_user("ann")
    make_user("root", admin=True)
    for path in ("/auth/login", "/auth/token"):
        body = {"username": "ann", "password": PASSWORD}
        assert refusal(Api().post(path, body)) == (403, "password_login_off")
        wrong = body | {"password": "wrong"}
        assert refusal(Api().post(path, wrong)) == (401, "login_failed")
        assert Api().post(path, body | {"username": "root"}).status_code in (200, 201)
    assert Api().get("/info").json()["password_login"] is False
    assert Visitor().log_in(sso, MEI) == "/"


def test_without_a_provider_there_is_no_single_sign_on(settings):
    assert Api().get("/info").json()["sso_name"] == ""
    assert Api().get("/auth/sso/start")["Location"] == "/login?refused=sso_off"
    answer = Api().get("/auth/sso/callback", code="x", state="y")
    assert answer["Location"] == "/login?refused=sso_state"


@pytest.mark.parametrize(
    ("issuer", "client", "secret", "password_login", "problem"),
    [
        ("", "", "", True, False),
        ("", "", "", False, True),
        ("https://sso.example.org/realm", "skep", "secret", False, False),
        ("http://127.0.0.1:9000", "skep", "secret", True, False),
        ("http://sso.example.org", "skep", "secret", True, True),
        ("https://sso.example.org", "", "secret", True, True),
        ("https://sso.example.org", "skep", "", True, True),
        ("https://sso.example.org?x=1", "skep", "secret", True, True),
    ],
)
def test_a_server_with_half_a_provider_does_not_start(
    issuer, client, secret, password_login, problem
):
    assert bool(env_settings.oidc_problem(issuer, client, secret, password_login)) is problem


LIAR = "https://sso.test"
CONFIGURATION = {
    "issuer": LIAR,
    "authorization_endpoint": f"{LIAR}/authorize",
    "token_endpoint": f"{LIAR}/token",
    "jwks_uri": f"{LIAR}/keys",
}
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Liar:
    """A provider at the level of HTTP, whose every answer a test may change."""

    def __init__(self, router: respx.Router) -> None:
        self.router = router
        self.configuration = dict(CONFIGURATION)
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
        router.get(f"{LIAR}/keys").respond(json={"keys": [public | {"kid": "1", "use": "sig"}]})

    def log_in(self, *, key: Any = KEY, algorithm: str = "RS256", **claims: Any) -> str:
        """Return where a login leads to whose ID token has these claims (None: not at all)."""
        cache.clear()
        self.router.get(f"{LIAR}/.well-known/openid-configuration").respond(json=self.configuration)
        browser = Visitor()
        location = browser.get("/auth/sso/start")["Location"]
        if not location.startswith(LIAR):
            return location
        query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        now = int(time.time())
        good = {"iss": LIAR, "aud": "skep", "sub": "1", "iat": now, "exp": now + 60}
        good |= {"nonce": query["nonce"], "preferred_username": "mei"}
        body = {name: value for name, value in (good | claims).items() if value is not None}
        token = jwt.encode(body, key, algorithm, headers={"kid": "1"})
        self.router.post(f"{LIAR}/token").respond(json={"id_token": token})
        return browser.come_back(f"{CALLBACK}?code=x&state={query['state']}")


@pytest.fixture
def liar(settings: Any) -> Iterator[Liar]:
    configure(settings, LIAR)
    with respx.mock(assert_all_called=False) as router:
        yield Liar(router)


def test_an_honest_answer_is_taken(liar):
    assert liar.log_in() == "/"


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"iss": "https://evil.test"},
        {"aud": "another-client"},
        {"aud": ["skep", "other"], "azp": "other"},
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"sub": ""},
        {"sub": "x" * 300},
        {"key": OTHER_KEY},
        {"key": "a-secret-of-the-client-that-is-long-enough", "algorithm": "HS256"},
        {"key": "", "algorithm": "none"},
    ],
)
def test_a_token_that_proves_nothing_is_refused(liar, claims):
    assert liar.log_in(**claims) == "/login?refused=sso_token_invalid"
    assert not User.objects.exists()


@pytest.mark.parametrize("name", ["token_endpoint", "jwks_uri", "authorization_endpoint"])
@pytest.mark.parametrize("host", ["https://evil.test", "http://169.254.169.254", "http://sso.test"])
def test_16_the_configuration_leads_requests_nowhere_else(liar, name, host):
    liar.configuration[name] = f"{host}/x"
    assert liar.log_in() == "/login?refused=sso_unavailable"
    assert not [call for call in liar.router.calls if call.request.url.path == "/x"]


def test_16_no_redirect_is_followed(liar):
    away = {"Location": "http://169.254.169.254/latest"}
    liar.router.get(f"{LIAR}/keys").respond(302, headers=away)
    assert liar.log_in() == "/login?refused=sso_unavailable"


def test_a_named_host_may_be_used(liar, settings):
    settings.SKEP_OIDC_HOSTS = ["keys.test"]
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
    liar.router.get("https://keys.test/x").respond(json={"keys": [public | {"kid": "1"}]})
    liar.configuration["jwks_uri"] = "https://keys.test/x"
    assert liar.log_in() == "/"


@pytest.mark.parametrize("body", [b"[]", b"<html>", b"[" * 100_000, b" " * 600_000, b"\xff"])
def test_a_garbled_answer_is_a_refusal(liar, body):
    liar.router.get(f"{LIAR}/keys").respond(content=body)
    assert liar.log_in() == "/login?refused=sso_unavailable"
