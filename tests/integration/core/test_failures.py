"""Whatever goes wrong under /api/, the answer is {code, message, details}."""

from __future__ import annotations

import httpx
import pytest
from django.conf import settings
from django.test import Client
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user, make_vc

from skep_platform.asgi import application
from skep_platform.core.serving import BodyLimit

pytestmark = pytest.mark.django_db
MOST = settings.DATA_UPLOAD_MAX_MEMORY_SIZE


@pytest.fixture
def client() -> Client:
    return Client(raise_request_exception=False)


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/v1", "/api/v1/nonsense", "/api/v2/jobs"])
@pytest.mark.parametrize("method", ["get", "post", "delete"])
def test_unknown_route(client, method, path):
    assert refusal(getattr(client, method)(path)) == (404, "unknown_route")


def test_trailing_slash_is_another_address(client):
    assert refusal(client.get("/api/v1/info/")) == (404, "unknown_route")


def test_wrong_method(client):
    assert refusal(client.put("/api/v1/info")) == (405, "method_not_allowed")


def test_17_wrong_host(client):
    answer = client.get("/api/v1/info", HTTP_HOST="evil.example.org")
    assert refusal(answer) == (400, "host_not_allowed")


@pytest.mark.parametrize("path", ["/api/v1/nodes/a%00b", "/api/v1/nodes?search=%00"])
def test_nul_in_the_address(path):
    api = Api(make_user())
    assert refusal(api.client.get(path)) == (400, "malformed_request")


@pytest.mark.parametrize("cursor", ["garbage", "cD0lMDA=", "cD1ub3QtYS1kYXRl", "bz05OTk5OTk5", "é"])
@pytest.mark.parametrize("path", ["/nodes", "/images", "/users"])
def test_cursor_that_no_one_was_given(path, cursor):
    api = Api(make_user(admin=True))
    assert api.get(path, cursor=cursor).status_code in (200, 404)


@pytest.mark.parametrize(("limit", "status"), [("10000000", 200), ("0", 400), ("-1", 400)])
def test_limit_is_clamped_where_it_is_a_number(limit, status):
    assert Api(make_user()).get("/nodes", limit=limit).status_code == status


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"username": NaN}',
        b"1" * 100_000,
        b"null",
        b'"text"',
        b"[]",
    ],
)
def test_31_malformed_json(client, body):
    answer = client.post("/api/v1/auth/token", body, content_type="application/json")
    assert answer.status_code == 400
    assert refusal(answer)[1] in ("malformed_request", "invalid")


@pytest.mark.parametrize(
    "body",
    [
        b'{"\\ud800": 1}',
        b'{"quotas": {"\\uD800x": 1}}',
        b'{"quotas": {"A100": 1, "x": ["\\udc00\\ud800"]}}',
        b'{"quotas": {"A100": 1e999}}',
        b'{"quotas": {"A100": -1e999}}',
    ],
)
def test_json_that_no_row_and_no_answer_can_hold_is_malformed(admin, body):
    make_vc("vision")
    path = "/api/v1/virtual-clusters/vision/quotas"
    answer = admin.client.put(path, body, content_type="application/json")
    assert refusal(answer) == (400, "malformed_request")


def test_a_whole_surrogate_pair_is_a_character(admin):
    body = b'{"name": "bees", "description": "\\ud83d\\udc1d"}'
    admin.client.post("/api/v1/virtual-clusters", body, content_type="application/json")
    assert admin.get("/virtual-clusters/bees").json()["description"] == "\N{HONEYBEE}"


@pytest.mark.parametrize("charset", ["punycode", "idna", "hex", "nonsense"])
def test_json_is_utf8_whatever_charset_is_named(client, charset):
    body = b'{"username": "J\xc3\xb6rg", "password": "x"}'
    kind = f"application/json; charset={charset}"
    answer = client.generic("POST", "/api/v1/auth/token", body, content_type=kind)
    assert refusal(answer) == (401, "login_failed")


@pytest.mark.parametrize("value", ["text/html; x*=nonsense''a", "*/*; x *= punycode''a"])
def test_a_media_type_with_a_parameter_in_a_charset_of_its_own_is_refused(client, value):
    answer = client.get("/api/v1/info", HTTP_ACCEPT=value)
    assert refusal(answer) == (400, "malformed_request")


def test_wrong_content_type(client):
    answer = client.post("/api/v1/auth/token", b"x", content_type="application/x-yaml")
    assert refusal(answer) == (415, "unsupported_media_type")


def test_defect_of_ours_is_a_500_without_its_inside(client, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr("skep_platform.accounts.queries.memberships", broken)
    api = Api(make_user())
    headers = {"HTTP_AUTHORIZATION": f"Bearer {api.token}", "HTTP_X_REQUEST_ID": "my-id"}
    answer = client.get("/api/v1/me", **headers)
    assert refusal(answer) == (500, "internal_error")
    assert answer.json()["details"] == {"request_id": "my-id"}
    assert "hunter2" not in answer.content.decode()
    assert answer.headers["X-Request-Id"] == "my-id"


def test_request_id_of_a_stranger_is_not_repeated_blindly(client):
    given = "x\r\nSet-Cookie: a=b"
    answer = client.get("/api/v1/info", HTTP_X_REQUEST_ID=given)
    assert "Set-Cookie" not in answer.headers["X-Request-Id"]


async def _post(app, content) -> httpx.Response:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        headers = {"content-type": "application/json"}
        return await client.post("/api/v1/auth/token", content=content, headers=headers)


async def test_31_body_that_says_it_is_too_large_is_not_read():
    answer = await _post(application, b" " * (MOST + 1))
    assert refusal(answer) == (413, "request_too_large")
    assert answer.json()["details"] == {"most_bytes": MOST}


async def test_31_body_that_does_not_say_its_size_is_counted():
    async def endless():
        while True:
            yield b" " * 65536

    answer = await _post(application, endless())
    assert refusal(answer) == (413, "request_too_large")


async def test_body_of_the_allowed_size_passes():
    seen = 0

    async def app(scope, receive, send):
        nonlocal seen
        more = True
        while more:
            message = await receive()
            seen += len(message["body"])
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    answer = await _post(BodyLimit(app, 100), b"x" * 100)
    assert (answer.status_code, seen) == (200, 100)
