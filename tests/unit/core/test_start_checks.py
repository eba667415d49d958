"""A server that its settings would leave open does not start, and says what to do."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.cache import cache
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from skep_platform.core.cache import JsonSerializer
from skep_platform.core.serving import behind_proxies, client_address, own_origin
from skep_platform.env_settings import (
    agent_timing_problem,
    is_loopback,
    lease_margin_problem,
    proxy_list,
    public_url_problem,
    secret_key_problem,
)

GOOD = {
    "SKEP_SECRET_KEY": "only-for-tests-0123456789-abcdefghijklmnop",
    "SKEP_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
    "SKEP_REDIS_URL": "redis://127.0.0.1:1",
    "SKEP_DATA_DIR": "/nonexistent",
}
LOOPBACK = ["127.0.0.1", "127.8.9.1", "localhost", "LOCALHOST", "[::1]"]


def start(**more: str) -> subprocess.CompletedProcess[str]:
    bare = {k: v for k, v in os.environ.items() if not k.startswith("SKEP_")}
    return subprocess.run(
        [sys.executable, "-c", "import skep_platform.settings"],
        env=bare | GOOD | more,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"SKEP_SECRET_KEY": "short"}, "secrets.token_urlsafe"),
        ({"SKEP_SECRET_KEY": "ab" * 40}, "secrets.token_urlsafe"),
        ({"SKEP_SECRET_KEY": "django-insecure-" + GOOD["SKEP_SECRET_KEY"]}, "keys of examples"),
        ({"SKEP_DATABASE_URL": "postgresql://u@db/skep?sslmod=require"}, 'option "sslmod"'),
        ({"SKEP_DATABASE_URL": "mysql://u@db/skep"}, "postgresql://user:password@host"),
        ({"SKEP_PUBLIC_URL": "http://skep.example.org"}, "SKEP_ALLOW_HTTP"),
        ({"SKEP_PUBLIC_URL": "http://10.0.0.7:8470"}, "SKEP_ALLOW_HTTP"),
        ({"SKEP_PUBLIC_URL": "skep.example.org"}, "https://host"),
        ({"SKEP_DOCS_URL": "docs.example.org"}, "SKEP_DOCS_URL is to be https://host/path"),
        ({"SKEP_DOCS_URL": "javascript://alert(1)/%0a"}, "SKEP_DOCS_URL"),
        ({"SKEP_DOCS_URL": "https://docs.example.org/?a=b"}, "SKEP_DOCS_URL"),
    ],
)
def test_finding_s19_a_weak_start_is_refused_with_what_to_do(more, said):
    done = start(**more)
    assert done.returncode != 0
    assert "ImproperlyConfigured" in done.stderr.splitlines()[-1]
    assert said in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"SKEP_LEASE_S": "30s"}, "SKEP_LEASE_S is to be a number, without a unit, not '30s'"),
        ({"SKEP_TOKEN_DAYS": "nan"}, "SKEP_TOKEN_DAYS is to be a number"),
        ({"SKEP_CORDON_FAULTS": "2.5"}, "SKEP_CORDON_FAULTS is to be a whole number, not 2.5"),
        ({"SKEP_SCHEDULING_MIN_RUN_S": "1h"}, "SKEP_SCHEDULING_MIN_RUN_S is to be a number"),
    ],
)
def test_a_number_that_is_none_is_named(more, said):
    done = start(**more)
    assert (done.returncode != 0, said in done.stderr.splitlines()[-1]) == (True, True), done.stderr


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"SKEP_PUBLIC_URL": "https://skep.example.org"},
        {"SKEP_DATABASE_URL": "postgresql://u:p@db/skep?sslmode=verify-full&sslrootcert=/ca.pem"},
        {"SKEP_PUBLIC_URL": "http://skep.example.org", "SKEP_ALLOW_HTTP": "1"},
        {"SKEP_DOCS_URL": "https://docs.example.org/skep"},
        {"SKEP_LEASE_S": "", "SKEP_CORDON_FAULTS": " "},  # as without them
    ],
)
def test_a_sound_start_is_not_refused(more):
    assert start(**more).returncode == 0


@given(st.text(max_size=31))
def test_finding_s19_no_short_key_will_do(key):
    assert "32" in secret_key_problem(key)


@given(st.text(alphabet="abcdefgh", min_size=32, max_size=80).map(lambda t: t.replace("h", "a")))
def test_finding_s19_nor_one_of_few_characters(key):
    assert secret_key_problem(key)


@pytest.mark.parametrize(
    "key",
    [
        "django-insecure-8k#v0d^q1w2e3r4t5y6u7i8o9p0a",
        "CHANGEME-0123456789-abcdefghijklmnopqrstuv",
        "please-change-me-0123456789-abcdefghijklmn",
        "your-secret-key-0123456789-abcdefghijklmnop",
        "an-example-key-0123456789-abcdefghijklmnopq",
    ],
)
def test_finding_s19_nor_a_default_that_everybody_knows(key):
    assert "examples" in secret_key_problem(key)


@given(st.ip_addresses().filter(lambda a: not a.is_loopback), st.booleans())
def test_finding_s19_plain_http_is_for_the_loopback(address, with_port):
    host = f"[{address}]" if address.version == 6 else str(address)
    url = f"http://{host}{':8470' if with_port else ''}"
    assert public_url_problem(url, allow_http=False)
    assert not public_url_problem(url, allow_http=True)
    assert not public_url_problem(url.replace("http:", "https:"), allow_http=False)


@pytest.mark.parametrize("host", LOOPBACK)
def test_plain_http_is_right_on_the_loopback(host):
    assert not public_url_problem(f"http://{host}:8470", allow_http=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "localhost.example.org", "127.0.0.1.nip.io", "::"])
def test_finding_s19_what_only_looks_like_the_loopback_is_none(host):
    assert not is_loopback(host)


def scope(scheme: str = "ws", *, peer: str = "10.0.0.9", **headers: str) -> dict:
    reported = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    return {"type": "websocket", "scheme": scheme, "client": (peer, 1), "headers": reported}


def seen(scope: dict) -> tuple[str, str]:
    """The origin and the client of a connection, as the server takes them."""
    found = []

    async def app(scope, receive, send):
        found.append((own_origin(scope), client_address(scope)))

    async_to_sync(behind_proxies(app))(dict(scope), None, None)
    return found[0]


def test_finding_s19_headers_of_proxies_count_only_behind_them(settings):
    reported = scope(host="skep.org", x_forwarded_proto="https", x_forwarded_for="1.1.1.1, 2.2.2.2")
    direct, proxied = ("http://skep.org", "10.0.0.9"), ("https://skep.org", "2.2.2.2")
    for proxies, expected in (
        ("", direct),
        ("0", direct),
        ("10.0.0.8,10.1.0.0/16,::1", direct),  # another proxy's address
        ("10.0.0.9", proxied),
        ("10.0.0.0/24", proxied),
        ("10.0.0.0/24,2.2.2.0/24", ("https://skep.org", "1.1.1.1")),  # a chain of two
    ):
        settings.SKEP_TRUSTED_PROXIES = proxy_list(proxies)
        assert seen(reported) == expected, proxies


def test_finding_s19_what_a_client_wrote_before_its_proxy_is_not_believed(settings):
    settings.SKEP_TRUSTED_PROXIES = ["10.0.0.9"]
    claimed = scope(host="skep.org", x_forwarded_for="10.0.0.9, 127.0.0.1, 6.6.6.6")
    assert seen(claimed) == ("http://skep.org", "6.6.6.6")
    lines = scope(host="skep.org", x_forwarded_for="127.0.0.1")
    assert seen(lines | {"client": ("6.6.6.6", 1)}) == ("http://skep.org", "6.6.6.6")


@pytest.mark.parametrize(
    "wrong", ["1", "*", "0.0.0.0/0", "::/0", "10.0.0.5/8", "proxy.example.org"]
)
def test_finding_s19_proxies_are_named_by_address_and_never_all(wrong):
    with pytest.raises(ValueError, match="SKEP_TRUSTED_PROXIES"):
        proxy_list(wrong)


def test_finding_s19_a_request_says_of_itself_that_it_is_secure_to_no_one():
    """These tests run without a proxy in front."""
    assert settings.SKEP_TRUSTED_PROXIES == []
    asked = RequestFactory().get("/", headers={"X-Forwarded-Proto": "https"})
    assert not asked.is_secure()


class Bomb:
    exploded = False

    def __reduce__(self):
        return (setattr, (Bomb, "exploded", True))


@pytest.mark.django_db
def test_finding_s19_what_lies_in_the_cache_is_data_and_never_runs():
    serializer = JsonSerializer()
    assert serializer.loads(pickle.dumps(Bomb())) is None
    client = cache._cache.get_client(None, write=True)
    client.set(cache.make_key("planted"), pickle.dumps(Bomb()))
    assert cache.get("planted") is None
    assert not Bomb.exploded
    cache.set("kept", {"a": [1, "ü", None, True]}, 60)
    assert cache.get("kept") == {"a": [1, "ü", None, True]}
    cache.set("count", 1, 60)
    assert cache.incr("count") == 2


@pytest.mark.parametrize(("margin_s", "refused"), [(5.0, False), (60.0, False), (4.0, True)])
def test_finding_c1_the_server_waits_for_what_the_watchdog_of_a_node_guarantees(
    margin_s: float, refused: bool
) -> None:
    assert bool(lease_margin_problem(margin_s)) == refused


@pytest.mark.parametrize(
    ("timing", "words"),
    [
        ((30.0, 5.0, 5.0), ""),
        ((1.0, 0.2, 0.1), ""),
        ((1e9, 5.0, 5.0), "lease_s is 1e+09"),
        ((0.0, 5.0, 5.0), "lease_s"),
        ((float("nan"), 5.0, 5.0), "lease_s is nan"),
        ((30.0, 0.0, 5.0), "heartbeat_interval_s"),
        ((30.0, 30.0, 5.0), "not less than lease_s"),
        ((30.0, 5.0, float("inf")), "sample_interval_s"),
    ],
)
def test_a_timing_that_no_agent_takes_is_refused_at_the_start(
    timing: tuple[float, float, float], words: str
) -> None:
    problem = agent_timing_problem(*timing)
    assert words in problem
    assert bool(problem) == bool(words)
