"""The page for every address that is not the API's, and the policy it is served under."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.http import JsonResponse
from django.test import Client, RequestFactory
from tests.support.platform_api import refusal

from skep_platform.core.middleware import Compress
from skep_platform.web import views
from skep_platform.web.urls import PAGES

ADDRESSES = ["/", "/jobs", "/jobs/0198/logs", "/cluster", "/login?next=/jobs"]
ROUTER = Path(__file__).parents[3] / "webui/src/app/router.tsx"


@pytest.fixture
def built(tmp_path, monkeypatch):
    index = tmp_path / "index.html"
    index.write_text("<!doctype html><title>Skep</title>")
    monkeypatch.setattr(views, "INDEX", index)
    views._read.cache_clear()
    return index


@pytest.mark.parametrize("path", ADDRESSES)
def test_every_address_shows_the_page(built, path):
    answer = Client().get(path)
    assert answer.status_code == 200
    assert answer.content == built.read_bytes()
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.cookies["skep_csrf"].value


def test_the_server_knows_every_page_of_the_router():
    paths = re.findall(r'path: "/([a-z-]*)', ROUTER.read_text())
    assert {path for path in paths if path} == set(PAGES)


@pytest.mark.parametrize(
    "path",
    ["/metrics", "/openapi.json", "/apiary", "/rest-server/api/v2/jobs", "/api/v2/jobs", "/jobsx"],
)
def test_finding_u27_an_unknown_address_is_not_the_page(built, path):
    """Programs took the page, with 200, for the answer."""
    answer = Client().get(path)
    assert answer.status_code == 404
    assert answer.json()["code"] == "unknown_route"


def test_finding_u21_large_answers_are_compressed(built):
    """Of a request that takes it, and only where there is something to gain."""
    client = Client(headers={"Accept-Encoding": "gzip"})
    small = client.get("/api/v1/info")
    assert "Content-Encoding" not in small.headers

    def large(_request):
        return JsonResponse({"nodes": ["gpu-node"] * 10_000})

    request = RequestFactory(headers={"Accept-Encoding": "gzip"}).get("/")
    answer = Compress(large)(request)
    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(answer.content) < 5_000
    plain = Compress(large)(RequestFactory().get("/"))
    assert "Content-Encoding" not in plain.headers


def test_page_that_was_rebuilt_is_served_at_once(built):
    Client().get("/")
    built.write_text("newer")
    import os

    os.utime(built, ns=(1, 1))
    assert Client().get("/").content == b"newer"


def test_page_that_is_not_built_says_how(monkeypatch, tmp_path):
    monkeypatch.setattr(views, "INDEX", tmp_path / "none.html")
    answer = Client().get("/")
    assert answer.status_code == 503
    assert "make webui" in answer.content.decode()


@pytest.mark.parametrize("path", ["/static/webui/assets/none.js", "/ws/live", "/static/../x"])
def test_missing_files_and_sockets_are_not_the_page(built, path):
    assert Client().get(path).status_code == 404


def test_writing_to_the_page_is_refused(built):
    assert Client().post("/jobs").status_code == 405


def test_page_may_load_only_what_is_ours(built):
    headers = Client().get("/").headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "script-src" not in policy  # falls back to 'self': no inline, no eval
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"


def test_answers_that_are_no_page_may_load_nothing():
    headers = Client().get("/api/v1/info").headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert headers["Cache-Control"] == "no-store"


def test_browsable_docs_work_under_the_policy():
    answer = Client().get("/api/v1/docs")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "<script>" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_static_files_are_served_whole_in_part_and_only_once():
    path = "/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui.css"
    whole = Client().get(path)
    assert (whole.status_code, whole.headers["Content-Type"]) == (200, 'text/css; charset="utf-8"')
    assert not whole.streaming
    part = Client().get(path, HTTP_RANGE="bytes=10-19")
    assert (part.status_code, part.content) == (206, whole.content[10:20])
    again = Client().get(path, HTTP_IF_NONE_MATCH=whole.headers["ETag"])
    assert (again.status_code, again.content) == (304, b"")
    head = Client().head(path)
    assert (head.status_code, head.content) == (200, b"")


def test_schema_is_served_to_everybody():
    answer = Client().get("/api/v1/openapi")
    assert answer.status_code == 200
    assert b"list_virtual_clusters" in answer.content


def test_unknown_route_of_the_api_is_not_the_page(built):
    assert refusal(Client().get("/api/v1/jobz"))[0] == 404
