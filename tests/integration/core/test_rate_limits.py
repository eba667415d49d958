"""What can be asked so many times a minute, by one user or from one address."""

from __future__ import annotations

import pytest
from tests.support.one_of_each import make_all, make_users
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user

from skep_platform.cluster import services
from skep_platform.cluster.models import JoinToken
from skep_platform.core import throttling
from skep_platform.core.notifications import valkey
from skep_platform.jobs.models import Job

pytestmark = pytest.mark.django_db

RESET = {"username": "owner", "token": "x" * 40, "new": "a-long-passphrase-1"}
JOIN = {"token": "skj_" + "x" * 43, "name": "n", "instance_id": "i"}
# Request, the limit that counts it, and what it is answered with below the limit. Limits of logins,
# codes, submits, checks, uploads and sockets are tested beside them.
LIMITED = [
    ("GET /jobs?search=train", throttling.Searches, None),
    ("GET /jobs/count?search=train", throttling.Searches, None),
    ("GET /audit?target=train", throttling.Searches, None),
    ("GET /datasets?search=train", throttling.Searches, None),
    ("GET /usage?by=job&name=train", throttling.Searches, None),
    ("GET /jobs/{job}/logs/search?q=x", throttling.Searches, None),
    ("GET /jobs/{job}/ranks", throttling.Searches, None),
    ("GET /jobs/{job}/log-tails", throttling.Searches, None),
    ("GET /jobs/{job}/attempts/1", throttling.Searches, None),
    ("GET /audit/export", throttling.Exports, None),
    ("GET /usage/export?by=vc", throttling.Exports, None),
    ("GET /virtual-clusters/team/report/export", throttling.Exports, None),
    ("POST /auth/password-reset", throttling.Guesses, RESET),
    ("POST /nodes/join", throttling.Guesses, JOIN),
]


@pytest.fixture
def admin():
    users = make_users()
    make_all(users)
    return Api(users["admin"])


@pytest.mark.parametrize(("route", "limit", "body"), LIMITED)
def test_31_requests_that_cost_much_or_guess_are_limited(admin, monkeypatch, route, limit, body):
    monkeypatch.setattr(limit, "most", 2)
    method, path = route.format(job=Job.objects.get().pk).split(" ")
    caller = admin if body is None else Api()
    answers = [caller.send(method, path, body) for _ in range(3)]
    assert [answer.status_code == 429 for answer in answers] == [False, False, True]
    assert refusal(answers[2]) == (429, "throttled")
    assert 1 <= int(answers[2].headers["Retry-After"]) <= 60
    other = Api(make_user(admin=True)) if body is None else Api()
    address = {} if body is None else {"REMOTE_ADDR": "192.0.2.7"}
    other.client.defaults.update(address)
    assert other.send(method, path, body).status_code != 429


def test_the_addresses_of_one_network_of_ipv6_are_one_client(monkeypatch):
    monkeypatch.setattr(throttling.Guesses, "most", 2)
    wrong = {"username": "root", "password": "x"}

    def guess(address: str) -> list[int]:
        answers = (Api().post("/auth/password-reset", RESET, REMOTE_ADDR=address) for _ in "x")
        logins = (Api().post("/auth/token", wrong, REMOTE_ADDR=address) for _ in range(5))
        return [answer.status_code for answer in (*answers, *logins)]

    found = [guess(f"2001:db8:7:1::{number:x}") for number in (1, 0xFFFF, 0xABC0)]
    assert [codes[0] for codes in found] == [400, 400, 429]
    assert found[1][1:] == [401] * 5
    assert found[2][1:] == [429] * 5
    assert guess("2001:db8:7:2::1") == [400] + [401] * 5


def test_a_list_without_a_search_is_not_counted(admin, monkeypatch):
    monkeypatch.setattr(throttling.Searches, "most", 0)
    assert admin.get("/jobs").status_code == 200
    assert admin.get("/jobs", search="x").status_code == 429


def test_31_an_address_that_a_client_claims_is_not_believed(monkeypatch):
    monkeypatch.setattr(throttling.Guesses, "most", 1)
    for number in range(2):
        last = Api().post("/nodes/join", JOIN, HTTP_X_FORWARDED_FOR=f"192.0.2.{number}")
    assert last.status_code == 429


def test_without_valkey_no_one_is_kept_out(admin, monkeypatch, settings):
    settings.SKEP_REDIS_URL = "redis://127.0.0.1:1"
    monkeypatch.setattr(throttling, "valkey", valkey.__wrapped__)
    monkeypatch.setattr(throttling.Searches, "most", 0)
    assert admin.get("/jobs", search="x").status_code == 200


def test_only_failed_joins_are_counted_as_all_nodes_may_share_an_address(monkeypatch):
    monkeypatch.setattr(throttling.Guesses, "most", 3)
    nodes = iter(range(100))

    def join(token: str, address: str = "192.0.2.1"):
        body = {"token": token, "name": f"node-{next(nodes)}", "instance_id": "i"}
        return Api().post("/nodes/join", body, REMOTE_ADDR=address)

    _, right = services.issue_join_token(None, 60, nodes=20)
    wrong = JOIN["token"]
    assert [join(right).status_code for _ in range(8)] == [201] * 8
    mixed = [wrong, right, wrong, right, right, wrong]
    assert [join(token).status_code for token in mixed] == [403, 201, 403, 201, 201, 403]
    assert refusal(join(wrong)) == (429, "throttled")
    # A right one is refused, too, and costs the token no use: else a guess would show.
    refused = join(right)
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert JoinToken.objects.get().uses_left == 20 - 11
    assert join(right, "192.0.2.2").status_code == 201
