"""Skep serves its own documentation, under a policy that its pages can live with."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory

from skep_platform.web import views

ROOT = Path(__file__).parents[3]


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The web page, and a folder for documentation that is not built."""
    index = tmp_path / "index.html"
    shutil.copy(ROOT / "webui" / "index.html", index)
    monkeypatch.setattr(views, "INDEX", index)
    monkeypatch.setattr(views, "DOCS", tmp_path / "documentation")
    views._read.cache_clear()
    yield tmp_path
    views._read.cache_clear()


def linked() -> str:
    """The address of the documentation that the page gets."""
    return re.findall(
        r'name="documentation" content="([^"]*)"', Client().get("/").content.decode()
    )[0]


def test_without_documentation_nothing_is_linked_and_its_address_is_not_found(page):
    assert linked() == ""
    answer = Client().get("/docs/")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_route")


def test_a_documentation_elsewhere_is_linked_in_place_of_our_own(page, settings):
    (page / "documentation").mkdir()
    (page / "documentation" / "index.html").touch()
    assert linked() == "/docs/"
    assert Client().get("/docs").headers["Location"] == "/docs/index.html"
    settings.SKEP_DOCS_URL = "https://docs.example.org/skep"
    assert linked() == "https://docs.example.org/skep/"
    found = Client().get("/docs/")
    assert found.headers["Location"] == "https://docs.example.org/skep/index.html"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The documentation as scripts/docs-site builds it, of a copy of the checkout."""
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "docs", root / "docs")
    shutil.copy(ROOT / "mkdocs.yml", root)
    (root / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "docs-site", root / "scripts")
    done = subprocess.run(
        [sys.executable, root / "scripts" / "docs-site"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return root / "platform" / "skep_platform" / "web" / "documentation"


def test_the_pages_have_no_inline_scripts_and_every_file_that_they_name(built):
    pages = sorted(built.rglob("*.html"))
    assert {"index.html", "operations.html"} <= {path.name for path in pages}
    for path in pages:
        text = path.read_text()
        assert "<script>" not in text
        assert not re.search(r"<style|\son[a-z]+=\"", text)
        needed = re.findall(r'(?:src|rel="stylesheet" href)="([^"#]+)"', text)
        assert any("/inline." in name for name in needed)
        assert [name for name in needed if not (path.parent / name).exists()] == []


def test_the_pages_are_served_with_their_search_to_who_is_not_logged_in(built, monkeypatch):
    monkeypatch.setattr(views, "DOCS", built)
    server = views.ContentPolicy(views.StaticFiles(lambda _request: HttpResponse(status=404)))

    def get(path):
        return server(RequestFactory(headers={"Accept-Encoding": "gzip"}).get(path))

    page = get("/docs/people.html")
    assert page.status_code == 200
    assert page.headers["Content-Type"].startswith("text/html")
    assert page.headers["Content-Encoding"] == "gzip"
    assert "script-src" not in page.headers["Content-Security-Policy"]  # 'self' only
    search = get("/docs/search.json")
    assert search.headers["Content-Type"] == "application/json"
    assert len(search.content) < 300_000
    assert get("/docs/none.html").status_code == 404
