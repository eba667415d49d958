"""What the tasks of a gang share stands once in a frame, and is in each of them once it is read."""

from __future__ import annotations

import pytest

from skep_agent.protocol import (
    AttemptSpec,
    Desired,
    FileSpec,
    ImageSpec,
    ProtocolError,
    SharedSpec,
    parse_server_message,
)


def spec(number: int, **fields: object) -> AttemptSpec:
    known = {"epoch": 1, "job_id": "j", "job_name": "n", "task_role": "w", "task_index": number}
    needs = {"image": ImageSpec(reference="x"), "command": "true", "cpus": 1.0, "memory_mb": 1}
    return AttemptSpec(attempt_id=f"a{number}", **known | needs | fields)


def read(desired: Desired) -> Desired:
    message = parse_server_message(desired.model_dump_json())
    assert isinstance(message, Desired)
    return message


SHARED = SharedSpec(
    env={"WORLD_SIZE": "2", "RANK": "none"},
    secret_env={"TOKEN": "hidden"},
    files=[FileSpec(path="/run/skep/hostfile", content="a slots=1\n")],
    masks=["hidden"],
)


def test_a_reader_sees_whole_attempts():
    attempts = [spec(0, env={"RANK": "0"}, shares="gang"), spec(1, env={"OWN": "1"})]
    first, second = read(Desired(revision=3, attempts=attempts, shared={"gang": SHARED})).attempts
    assert first.env == {"WORLD_SIZE": "2", "RANK": "0"}  # what it says itself comes first
    assert (first.secret_env, first.masks) == ({"TOKEN": "hidden"}, ["hidden"])
    assert [file.path for file in first.files] == ["/run/skep/hostfile"]
    assert first.shares == ""
    assert (second.env, second.files, second.masks) == ({"OWN": "1"}, [], [])


def test_a_frame_that_shares_what_is_not_there_is_refused():
    with pytest.raises(ProtocolError) as refused:
        read(Desired(revision=1, attempts=[spec(0, shares="gang")]))
    assert refused.value.code == "frame_invalid"


def test_what_is_shared_is_not_shown_where_it_is_secret():
    assert "hidden" not in repr(SHARED)
