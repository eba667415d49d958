"""What an agent remembers over its own death."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from skep_agent import journal as journal_module
from skep_agent.core.records import Outcome, Remembered, Stopping, StopPlan
from skep_agent.journal import Journal
from skep_agent.statedir import Identity, StateDir, StateError


def record(attempt_id: str, **fields) -> Remembered:
    defaults = {
        "attempt_id": attempt_id,
        "epoch": 1,
        "job_id": "j",
        "gpu_uuids": ("GPU-1",),
        "ports": (20000,),
        "plan": StopPlan(5.0, "SIGUSR1", 60.0),
        "container_id": "c",
        "outcome": None,
        "released": False,
    }
    return Remembered(**(defaults | fields))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def test_records_outlive_the_process(path: Path) -> None:
    journal = Journal(path, "boot")
    ended = record("a2", outcome=Outcome("exited", exit_code=3, oom_killed=True, xids=(79,)))
    journal.remember(record("a1"))
    journal.remember(record("a2"))
    journal.remember(ended)
    leaving = record("a4", stopping=Stopping("requested", save_until=12.5))
    journal.remember(record("a3"))
    journal.forget("a3")
    journal.remember(leaving)
    assert Journal(path, "boot").records == [record("a1"), ended, leaving]


def test_a_line_of_an_agent_that_knew_no_checkpoints_is_read(path: Path) -> None:
    path.write_text(
        '{"op":"hold","attempt_id":"a1","epoch":1,"job_id":"j","gpu_uuids":[],"ports":[],'
        '"stop_grace_s":5.0,"container_id":"c","outcome":null,"released":false}\n'
    )
    (found,) = Journal(path, "boot").records
    assert found.plan == StopPlan(5.0)
    assert found.stopping is None


def test_a_torn_or_strange_line_is_skipped(path: Path) -> None:
    journal = Journal(path, "boot")
    journal.remember(record("a1"))
    with path.open("ab") as file:
        file.write(b'{"op":"hold","attempt_id":"a2"}\n[]\n\xff\n{"op":"future"}\n{"op":"ho')
    assert [r.attempt_id for r in Journal(path, "boot").records] == ["a1"]


def test_sequence_numbers_are_never_used_twice(path: Path) -> None:
    first = Journal(path, "boot")
    first.reserve(first.next_seq + 1)
    first.reserve(first.next_seq + 17)
    assert Journal(path, "boot").next_seq > first.next_seq + 17


def test_a_lease_counts_only_within_one_boot_of_the_machine(path: Path) -> None:
    Journal(path, "boot-1").remember_lease(123.5)
    assert Journal(path, "boot-1").lease_until == 123.5
    assert Journal(path, "boot-2").lease_until is None


def test_the_file_stays_small(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_GARBAGE_LINES", 20)
    journal = Journal(path, "boot")
    journal.remember(record("kept"))
    for number in range(200):
        journal.remember(record(f"a{number}"))
        journal.forget(f"a{number}")
    assert len(path.read_bytes().splitlines()) < 30
    journal.remember(record("last"))
    assert [r.attempt_id for r in Journal(path, "boot").records] == ["kept", "last"]


def test_two_agents_cannot_share_a_state_directory(tmp_path: Path) -> None:
    first, second = StateDir(tmp_path), StateDir(tmp_path)
    first.lock()
    with pytest.raises(StateError, match="another agent"):
        second.lock()
    first.unlock()
    second.lock()


def test_the_instance_id_stays_with_the_directory(tmp_path: Path) -> None:
    first = StateDir(tmp_path / "a").instance_id
    assert StateDir(tmp_path / "a").instance_id == first
    assert StateDir(tmp_path / "b").instance_id != first


def test_the_credential_is_for_the_owner_alone_and_is_not_printed(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    identity = Identity("http://x", "n1", "id", "c", "secret-credential")
    state.save(identity)
    assert state.load() == identity
    assert (tmp_path / "credential.json").stat().st_mode & 0o077 == 0
    assert "secret-credential" not in repr(identity)


@pytest.mark.parametrize("text", [None, "", "[]", '{"server": 1}'])
def test_a_missing_or_damaged_credential_is_a_clear_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "credential.json").write_text(text)
    with pytest.raises(StateError, match="join"):
        StateDir(tmp_path).load()


def test_finding_c2_a_lost_journal_or_another_boot_is_reported_by_a_new_memory_id(
    path: Path,
) -> None:
    first = Journal(path, "boot").memory_id
    assert first
    again = Journal(path, "boot")
    assert again.memory_id == first
    for n in range(5000):  # rewritten meanwhile
        again.remember_lease(float(n))
    assert Journal(path, "boot").memory_id == first
    path.unlink()
    wiped = Journal(path, "boot").memory_id
    assert wiped not in ("", first)
    assert Journal(path, "next boot").memory_id not in ("", wiped)


def test_a_full_disk_ends_nothing_and_what_was_not_written_follows(path: Path) -> None:
    journal = Journal(path, "boot")
    journal.remember(record("a1"))
    fresh = path.with_suffix(".new")
    fresh.symlink_to("/dev/full")
    os.dup2(os.open("/dev/full", os.O_WRONLY | os.O_CLOEXEC), journal._file)
    journal.remember(record("a2"))
    journal.forget("a1")
    journal.remember_lease(7.0)
    journal.reserve(20_000)
    restarted = Journal(path, "boot")
    assert restarted.records == [record("a1")]
    fresh.unlink()
    journal.remember_lease(8.0)
    now = Journal(path, "boot")
    assert (now.records, now.lease_until) == ([record("a2")], 8.0)
    assert now.next_seq > 20_000


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO])
def test_a_disk_that_became_read_only_or_broke_ends_no_tasks(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    journal = Journal(path, "boot")

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, "write", refuse)
        broken.setattr(os, "open", refuse)
        for attempt_id in ("a1", "a2"):
            journal.remember(record(attempt_id))
    journal.remember(record("a3"))
    assert [r.attempt_id for r in Journal(path, "boot").records] == ["a1", "a2", "a3"]


def test_a_journal_that_cannot_be_opened_anew_writes_into_no_other_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(path, "boot")
    monkeypatch.setattr(journal_module, "_GARBAGE_LINES", -1)  # each record rewrites it
    opened = os.open

    def no_more(name: Path, flags: int, *mode: int) -> int:
        if flags & os.O_APPEND:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opened(name, flags, *mode)

    with monkeypatch.context() as broken:
        broken.setattr(os, "open", no_more)
        journal.remember(record("a1"))
    os.fstat(journal._file)  # still its own
    journal.remember(record("a2"))
    assert [r.attempt_id for r in Journal(path, "boot").records] == ["a1", "a2"]
