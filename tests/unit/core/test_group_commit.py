"""Work of threads that come at the same time: done at once, and failing for who it is about."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from tests.support.stack import eventually

from skep_platform.core import group_commit
from skep_platform.core.group_commit import Expected, GroupCommit


class Taken(Exception):
    pass


class Down(Exception):
    pass


class Work:
    """Notes what it is called with. The first call goes on until `go_on`."""

    def __init__(self, error: Callable[[Sequence[str]], Exception | None] = lambda _: None) -> None:
        self.batches: list[list[str]] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self._error = error

    def __call__(self, items: Sequence[str]) -> None:
        self.batches.append(list(items))
        if len(self.batches) == 1:
            self.begun.set()
            assert self.go_on.wait(30)
        if error := self._error(items):
            raise error


@pytest.fixture
def threads():
    with ThreadPoolExecutor(20) as pool:
        yield pool


def behind_the_first(
    threads: ThreadPoolExecutor, group: GroupCommit[str], work: Work, *items: str
) -> list[Future[None]]:
    """Have these items come while work on "first" goes on."""
    first = threads.submit(group.run, "first")
    assert work.begun.wait(30)
    others = [threads.submit(group.run, item) for item in items]
    eventually(lambda: len(group._waiting) == len(items), 30)
    work.go_on.set()
    first.result(30)
    return others


@pytest.fixture
def patient(monkeypatch):
    monkeypatch.setattr(group_commit, "PATIENCE_S", 60.0)


@pytest.mark.usefixtures("patient")
def test_what_came_meanwhile_is_done_at_once(threads):
    work = Work()
    group = GroupCommit(work, (Taken,))
    for one in behind_the_first(threads, group, work, "a", "b", "c"):
        one.result(30)
    assert [sorted(batch) for batch in work.batches] == [["first"], ["a", "b", "c"]]


@pytest.mark.usefixtures("patient")
def test_no_more_than_so_many_are_done_at_once(threads):
    work = Work()
    group = GroupCommit(work, (Taken,), most=2)
    for one in behind_the_first(threads, group, work, *"abcde"):
        one.result(30)
    assert sorted(len(batch) for batch in work.batches) == [1, 1, 2, 2]


@pytest.mark.usefixtures("patient")
def test_an_error_of_one_item_is_that_of_its_thread(threads):
    work = Work(lambda items: Taken("b") if "b" in items else None)
    group = GroupCommit(work, (Taken,))
    a, b, c = behind_the_first(threads, group, work, "a", "b", "c")
    a.result(30), c.result(30)
    with pytest.raises(Taken):
        b.result(30)
    assert sorted(item for batch in work.batches[2:] for item in batch) == ["a", "b", "c"]


@pytest.mark.usefixtures("patient")
def test_an_error_that_is_of_no_item_is_not_tried_again(threads):
    work = Work(lambda items: Down("gone") if "b" in items else None)
    group = GroupCommit(work, (Taken,))
    errors = [one.exception(30) for one in behind_the_first(threads, group, work, "a", "b", "c")]
    assert [type(error) for error in errors] == [Down] * 3
    assert len(set(map(id, errors))) == 3  # each thread has one of its own
    assert len(work.batches) == 2


def test_work_that_hangs_holds_up_no_other_for_long(threads):
    work = Work()
    group = GroupCommit(work, (Taken,))
    first = threads.submit(group.run, "first")
    assert work.begun.wait(30)
    threads.submit(group.run, "second").result(30)
    assert work.batches == [["first"], ["second"]]
    work.go_on.set()
    first.result(30)


@pytest.fixture
def lingering(monkeypatch):
    monkeypatch.setattr(group_commit, "LINGER_S", 60.0)
    monkeypatch.setattr(group_commit, "EXPECTED_S", 60.0)


@pytest.mark.usefixtures("lingering")
def test_who_works_next_waits_for_those_who_are_about_to_come(threads):
    work, expected = Work(), Expected()
    work.go_on.set()
    group = GroupCommit(work, (Taken,), expected=expected)

    def coming(item: str) -> None:
        with expected.announced():
            arrived.wait(30)
            group.run(item)

    arrived = threading.Barrier(3)
    for one in [threads.submit(coming, item) for item in "abc"]:
        one.result(30)
    assert [sorted(batch) for batch in work.batches] == [["a", "b", "c"]]
    with expected.announced():  # but none waits for itself
        group.run("alone")


@pytest.mark.usefixtures("lingering")
def test_no_thread_waits_for_one_that_does_not_come_after_all(threads):
    work, expected = Work(), Expected()
    work.go_on.set()
    group = GroupCommit(work, (Taken,), expected=expected)
    with expected.announced():
        first = threads.submit(group.run, "first")
        eventually(lambda: len(group._waiting) == 1, 30)
        assert not first.done()
    first.result(30)


@pytest.mark.usefixtures("lingering")
def test_no_thread_waits_for_one_that_came_to_another_group(threads):
    work, others, expected = Work(), Work(), Expected()
    work.go_on.set()
    group = GroupCommit(work, (Taken,), expected=expected)
    other = GroupCommit(others, (Taken,), expected=expected)

    def elsewhere() -> None:
        with expected.announced():
            eventually(lambda: len(group._waiting) == 1, 30)
            other.run("other")

    second = threads.submit(elsewhere)
    eventually(lambda: len(expected._threads) == 1, 30)
    group.run("first")  # while the other one is worked on, and still announced
    assert others.begun.wait(30)
    others.go_on.set()
    second.result(30)


@pytest.mark.usefixtures("lingering")
def test_no_thread_waits_for_one_that_itself_waits_for_something(threads, monkeypatch):
    work, expected = Work(), Expected()
    work.go_on.set()
    group = GroupCommit(work, (Taken,), expected=expected)
    with expected.announced():
        monkeypatch.setattr(group_commit, "EXPECTED_S", 0.0)  # it was announced long ago
        threads.submit(group.run, "first").result(30)
