"""Which headers pass between a browser and an app, and whose requests are taken."""

from __future__ import annotations

import pytest

from skep_platform.interactive import headers as h

OWN = ("skep_app", "skep_session")
ORIGIN = "https://label.apps.example.net"


def to_app(*pairs: tuple[bytes, bytes]) -> dict[bytes, bytes]:
    return dict(
        h.to_app(pairs, host="l.apps", scheme="https", address="9.9.9.9", user="bee", own=OWN)
    )


def test_17_no_credential_and_no_claim_about_the_client_reaches_an_app():
    seen = to_app(
        (b"Host", b"evil"),
        (b"Cookie", b"skep_app=secret; a=1; skep_session=s"),
        (b"Cookie", b"b=2"),
        (b"Authorization", b"Bearer x"),
        (b"X-Forwarded-For", b"1.1.1.1"),
        (b"X-Forwarded-User", b"root"),
        (b"X-Skep-User", b"root"),
        (b"Forwarded", b"for=1.1.1.1"),
        (b"Connection", b"keep-alive, X-Mine"),
        (b"X-Mine", b"1"),
        (b"Proxy-Authorization", b"x"),
        (b"Accept", b"*/*"),
    )
    assert seen == {
        b"host": b"l.apps",
        b"cookie": b"a=1; b=2",
        b"Accept": b"*/*",
        b"x-forwarded-for": b"9.9.9.9",
        b"x-forwarded-proto": b"https",
        b"x-forwarded-host": b"l.apps",
        b"x-skep-user": b"bee",
    }


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (b"a=1; Path=/", b"a=1; Path=/"),
        (b"a=1; Domain=example.net; Secure", b"a=1; Secure"),
        (b"a=1;DOMAIN = .example.net;HttpOnly", b"a=1;HttpOnly"),
        (b"skep_app=x", b""),
        (b" skep_session =x; Path=/", b""),
    ],
)
def test_17_a_cookie_of_an_app_stays_at_its_host(given, kept):
    assert h.host_only(given, set(OWN)) == kept


def test_what_an_app_says_of_other_hosts_is_left_out():
    answer = h.to_browser(
        [(b"Clear-Site-Data", b'"cookies"'), (b"Alt-Svc", b"h3"), (b"X-A", b"1")], OWN
    )
    assert answer == [
        (b"x-a", b"1"),
        (b"referrer-policy", b"same-origin"),
        (b"content-security-policy", b"frame-ancestors 'self'"),
    ]


NAVIGATE = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}


@pytest.mark.parametrize(
    ("method", "given", "taken"),
    [
        ("GET", {}, True),
        ("POST", {"origin": ORIGIN, "sec-fetch-site": "same-origin"}, True),
        ("GET", {**NAVIGATE, "sec-fetch-dest": "document"}, True),
        ("GET", {**NAVIGATE, "sec-fetch-dest": "iframe"}, False),
        ("POST", {**NAVIGATE, "sec-fetch-dest": "document"}, False),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, False),
        ("POST", {"origin": "https://other.apps.example.net"}, False),
        ("POST", {"origin": "null"}, False),
    ],
)
def test_20_pages_of_other_origins_may_only_link_to_an_app(method, given, taken):
    pairs = [(name.encode(), value.encode()) for name, value in given.items()]
    assert h.from_own_page(method, pairs, ORIGIN) is taken
