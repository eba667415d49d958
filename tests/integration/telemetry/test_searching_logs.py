"""Searching the log of a job: by literal text or regular expression, whatever the chunks."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.gateway_rows import frames, running_attempt, write
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node

from skep_platform.jobs.models import TaskAttempt
from skep_platform.telemetry import search
from skep_platform.telemetry.search import finder
from skep_platform.telemetry.services import append_logs

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request reads on as long as a busy machine takes: where it stops has a test of its own."""
    monkeypatch.setattr(search, "BUDGET_S", 60.0)


@pytest.fixture
def attempt() -> TaskAttempt:
    return running_attempt()


@pytest.fixture
def api(attempt: TaskAttempt) -> Api:
    return Api(attempt.job.owner)


class TestSearch:
    def find(self, api: Api, attempt: TaskAttempt, q: str, **query: Any) -> Any:
        response = api.get(f"/jobs/{attempt.job_id}/logs/search", q=q, **query)
        assert response.status_code == 200, response.json()
        return response.json()

    def test_lines_with_the_text_and_their_offsets(self, api, attempt):
        write(attempt, b"loss 1\nnothing\nloss 2 loss\n")
        write(attempt, b"the loss\n", "stderr")
        found = self.find(api, attempt, "loss")
        assert [(m["stream"], m["offset"], m["text"]) for m in found["matches"]] == [
            ("stdout", 0, "loss 1"),
            ("stdout", 15, "loss 2 loss"),
            ("stderr", 4, "the loss"),
        ]
        assert found["next"] is None

    def test_the_text_is_literal(self, api, attempt):
        write(attempt, b"a.c\nabc\n.*\n%_\n")
        assert [m["text"] for m in self.find(api, attempt, ".*")["matches"]] == [".*"]
        assert [m["text"] for m in self.find(api, attempt, "%_")["matches"]] == ["%_"]

    def test_bounded_work_goes_on_with_the_cursor(self, api, attempt, monkeypatch):
        monkeypatch.setattr(search, "BUDGET_S", 0.0)  # one chunk in each request
        monkeypatch.setattr(search, "ROWS", 2)
        for i in range(7):
            write(attempt, f"line {i}\n".encode())
        read, cursor, requests = [], "", 0
        while cursor is not None:
            found = self.find(api, attempt, "line", cursor=cursor)
            read += [m["text"] for m in found["matches"]]
            cursor = found["next"]
            requests += 1
        assert read == [f"line {i}" for i in range(7)]
        assert requests == 7

    @pytest.mark.parametrize("q", ["", "two\nlines", "x" * 300])
    def test_what_cannot_be_looked_for_is_refused(self, api, attempt, q):
        answer = api.get(f"/jobs/{attempt.job_id}/logs/search", q=q)
        assert refusal(answer) == (400, "invalid")

    @pytest.mark.parametrize("cursor", ["x", "-1", "1.x", "9" * 30, "1.2.3"])
    def test_a_made_up_cursor_is_refused(self, api, attempt, cursor):
        answer = api.get(f"/jobs/{attempt.job_id}/logs/search", q="a", cursor=cursor)
        assert refusal(answer) == (400, "cursor_invalid")

    def test_regular_expressions_within_a_line(self, api, attempt):
        write(attempt, b"epoch 1 loss 0.5\nepoch 2 loss 0.25\nloss\n0.5\n")
        found = self.find(api, attempt, r"^epoch \d+.*0\.\d{2}$", regex=1)
        assert [m["text"] for m in found["matches"]] == ["epoch 2 loss 0.25"]
        assert self.find(api, attempt, r"loss\s0", regex=1)["matches"][0]["offset"] == 8
        assert self.find(api, attempt, r"loss\n0", regex=1)["matches"] == []

    def test_a_regular_expression_cannot_run_away(self, api, attempt):
        write(attempt, b"x" * 500_000 + b"\n")
        assert self.find(api, attempt, "(x+x+)+y", regex=1)["matches"] == []

    @pytest.mark.parametrize("q", ["(", "a{1000}{1000}", r"(a)\1", "(?=a)"])
    def test_what_is_no_regular_expression_is_refused_with_the_reason(self, api, attempt, q):
        answer = api.get(f"/jobs/{attempt.job_id}/logs/search", q=q, regex=1)
        assert refusal(answer) == (400, "regex_invalid")

    def test_without_regard_to_case_also_beyond_ascii(self, api, attempt):
        write(attempt, "Error\nERROR (1)\nÄRGER\n".encode())
        assert len(self.find(api, attempt, "error")["matches"]) == 0
        assert len(self.find(api, attempt, "error", ignore_case=1)["matches"]) == 2
        assert len(self.find(api, attempt, "ärger", ignore_case=1)["matches"]) == 1
        assert len(self.find(api, attempt, "error (1)", ignore_case=1)["matches"]) == 1

    def test_where_in_the_text_the_match_is(self, api, attempt):
        write(attempt, "größe: 12\n".encode())
        [match] = self.find(api, attempt, "12")["matches"]
        assert match["text"][match["begin"] : match["end"]] == "12"
        assert match["offset"] == 9

    def test_lines_around_a_match_across_chunks(self, api, attempt):
        for piece in (b"a\nb\nc", b"\nhit\nd", b"\ne\nf\n"):
            write(attempt, piece)
        [match] = self.find(api, attempt, "hit", around=2)["matches"]
        assert (match["before"], match["text"], match["after"]) == (["b", "c"], "hit", ["d", "e"])
        [first] = self.find(api, attempt, "a", around=1)["matches"]
        assert (first["before"], first["after"]) == ([], ["b"])
        [last] = self.find(api, attempt, "f", around=1)["matches"]
        assert (last["before"], last["after"]) == (["e"], [])

    def test_of_one_rank_or_role(self, api, attempt):
        write(attempt, b"hit\n")
        assert len(self.find(api, attempt, "hit", rank=0, role="worker")["matches"]) == 1
        assert self.find(api, attempt, "hit", rank=1)["matches"] == []

    def test_a_line_longer_than_any_is_found_in_part(self, api, attempt, monkeypatch):
        monkeypatch.setattr(search, "LONGEST_LINE", 1000)
        write(attempt, b"x" * 1500 + b"hi")
        write(attempt, b"t" + b"y" * 1500)
        write(attempt, b"end\n")
        assert [m["offset"] for m in self.find(api, attempt, "hit")["matches"]] == [1500]
        assert [m["offset"] for m in self.find(api, attempt, "yend")["matches"]] == [3002]


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    data=st.lists(st.sampled_from(b"ab\n"), min_size=1, max_size=40).map(bytes),
    cuts=st.lists(st.integers(1, 39), max_size=8),
    needle=st.sampled_from(["a", "ab", "aba", "bb", "a+b", "^b", "b$", "^a.b$"]),
    limit=st.integers(1, 4),
)
def test_search_finds_every_line_whatever_the_chunks_and_pages(node, data, cuts, needle, limit):
    attempt = running_attempt(node, gpus=0)
    for piece in frames(attempt, data, [c for c in cuts if c < len(data)])[:-1]:
        append_logs(attempt.node_id, [piece])
    find = finder(needle, regex=True, ignore_case=False)
    found: list[int] = []
    cursor = search.SearchCursor()
    while True:
        page = search.search(attempt.job, search.Filter(), find, cursor, limit)
        found += [match.offset for match in page.matches]
        if page.next is None:
            break
        cursor = search.SearchCursor.parse(page.next)
    assert sorted(set(found)) == sorted(found)
    assert {line_of(data, offset) for offset in found} == {
        number for number, line in enumerate(data.split(b"\n")) if re.search(needle, line.decode())
    }
    assert len(found) == len({line_of(data, offset) for offset in found})


def line_of(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset)


@pytest.fixture
def node(db: None):
    return make_node()
