"""The agent's own check of the files that the platform wants in a container, without an engine."""

from __future__ import annotations

import io
import subprocess
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.agent_specs import spec

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.files import (
    Owner,
    check_files,
    command_is_secret,
    files_tar,
    task_files,
)
from skep_agent.protocol import FileSpec, WorkingFiles

names = st.text("ab./\\- \n", min_size=1, max_size=12)


def with_file(path: str, content: str = "x"):
    return spec(files=[FileSpec(path=path, content=content)])


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/run/skep",
        "/run/skep/",
        "/run/skep/../../etc/passwd",
        "/run/skep/a/../b",
        "/run/skep/./a",
        "/run/skep//a",
        "/run/skep/a/",
        "/run/skep/a\n",
        "/run/skep/...",
        "run/skep/a",
        "/run/skep/command",
        "/run/skep/env",
        "/run/skep/env/x",
    ],
)
def test_attack_02_a_file_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(RuntimeFailure, match="does not run it"):
        check_files(with_file(path))


@given(names)
def test_what_is_accepted_lands_below_the_folder(name: str) -> None:
    asked = with_file(f"/run/skep/{name}")
    try:
        check_files(asked)
    except RuntimeFailure:
        return
    with tarfile.open(fileobj=io.BytesIO(files_tar(task_files(asked), Owner()))) as tar:
        for entry in tar:
            assert entry.name.split("/")[0] == "skep"
            assert not {"..", "."} & set(entry.name.split("/"))


def test_too_much_and_twice_are_refused() -> None:
    twice = [FileSpec(path="/run/skep/a", content="")] * 2
    within = [FileSpec(path=f"/run/skep/{name}", content="") for name in ("a", "a/b")]
    many = [FileSpec(path=f"/run/skep/{n}", content="") for n in range(65)]
    for files in (twice, within, many):
        with pytest.raises(RuntimeFailure):
            check_files(spec(files=files))
    with pytest.raises(RuntimeFailure, match="bytes"):
        check_files(with_file("/run/skep/a", "x" * (4 * 1024 * 1024 + 1)))


@pytest.mark.parametrize(
    "folder", ["/proc/self/fd/7", "//proc/1", "/a/../proc", "/a/./b", "a", "", "/sys", "/dev/shm"]
)
def test_attack_02_a_folder_of_the_kernel_is_no_working_directory(folder: str) -> None:
    archive = WorkingFiles(sha256="0" * 64, size=1, path=folder)
    for asked in (spec(work_dir=folder or "x"), spec(working_files=archive)):
        with pytest.raises(RuntimeFailure):
            check_files(asked)


def test_a_plain_folder_is_one() -> None:
    check_files(spec(work_dir="/workspace/my code"))


def test_setuid_and_writing_for_others_are_dropped() -> None:
    asked = spec(files=[FileSpec(path="/run/skep/a", content="", mode=0o7777)])
    assert [mode for _, _, mode in task_files(asked)] == [0o755]


def test_a_secret_in_the_environment_takes_the_command_with_it() -> None:
    asked = spec(secret_env={"TOKEN": "abc"})
    assert command_is_secret(asked)
    assert {name: mode for name, _, mode in task_files(asked)} == {"command": 0o400, "env": 0o400}
    assert not command_is_secret(spec())


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_shell_reads_every_value_as_it_was(value: str) -> None:
    ((_, content),) = [
        (name, content)
        for name, content, _ in task_files(spec(secret_env={"A": value}))
        if name == "env"
    ]
    script = content + b'printf %s "$A"'
    assert subprocess.run(["/bin/sh"], input=script, capture_output=True).stdout == value.encode()
