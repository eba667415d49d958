"""Job files that `skep run` writes."""

from __future__ import annotations

from typing import Any

import pytest

from skep_jobfile import InvalidJobFile, compile_job
from skep_jobfile.document import read
from skep_jobfile.shorthand import Run, default_name, job_file, memory_mb


def made(*command: str, **fields: Any) -> dict[str, Any]:
    return read(job_file(Run(command, **fields))).data


def worker(*command: str, **fields: Any) -> dict[str, Any]:
    role: dict[str, Any] = made(*command, **fields)["taskRoles"]["worker"]
    return role


def test_each_node_is_a_task_with_its_gpus() -> None:
    role = worker("python", "train.py", nodes=2, gpus=8)
    assert role["instances"] == 2
    assert role["resourcePerInstance"] == {"cpu": 64, "memoryMB": 8 * 65536, "gpu": 8}


def test_torchrun_is_informed_of_all_nodes() -> None:
    setup, line = worker("torchrun", "train.py", "--lr", "1e-3", nodes=2, gpus=8)["commands"]
    assert line == "torchrun train.py --lr 1e-3"
    assert 'PET_NNODES="$WORLD_SIZE"' in setup
    assert "PET_NPROC_PER_NODE=8" in setup


@pytest.mark.parametrize(
    "command", [("python", "train.py"), ("torchrun", "--standalone", "train.py")]
)
def test_what_needs_no_other_node_is_informed_of_none(command: tuple[str, ...]) -> None:
    assert len(worker(*command, nodes=2)["commands"]) == 1


def test_one_word_is_a_line_of_shell_and_several_are_words() -> None:
    assert worker("echo $HOME && ls")["commands"] == ["echo $HOME && ls"]
    assert worker("echo", "$HOME", "a b")["commands"] == ["echo '$HOME' 'a b'"]


def test_all_of_the_options_stand_in_the_file() -> None:
    found = made(
        "train",
        virtual_cluster="vision",
        gpus=1,
        gpu_type="A100",
        image="a/b:1",
        environment={"DEBUG": "yes"},
        max_duration="2h30m",
        priority_class="prod",
        tags=["lr:1"],
        archive=f"sha256:{'0' * 64}",
    )
    assert found["defaults"] == {"virtualCluster": "vision"}
    assert found["prerequisites"][0]["uri"] == "a/b:1"
    assert found["extras"] == {
        "hivedScheduler": {
            "jobPriorityClass": "prod",
            "taskRoles": {"worker": {"skuType": "A100"}},
        },
        "tags": ["lr:1"],
        "skep": {
            "maxDuration": "2h30m",
            "environment": {"DEBUG": "yes"},
            "workingFiles": {"archive": f"sha256:{'0' * 64}"},
        },
    }


def test_the_file_compiles() -> None:
    assert compile_job(job_file(Run(["ls"])))["entrypoints"] == {"worker": "ls"}


def test_values_that_no_job_takes_are_refused() -> None:
    with pytest.raises(InvalidJobFile) as error:
        job_file(Run(["ls"], nodes=0, max_duration="soon", priority_class="high"))
    assert len(error.value.problems) == 3


NAMES = [("torchrun train.py", "train"), ("python -m a.b", "python"), ("bash /x/go.sh", "go"),
         ("echo $X && ls", "echo"), ("./run", "run"), ("...", "job")]  # fmt: skip


@pytest.mark.parametrize(("line", "name"), NAMES)
def test_a_job_is_named_after_what_it_runs(line: str, name: str) -> None:
    assert default_name(line.split()) == name


def test_memory_is_written_with_or_without_a_unit() -> None:
    assert [memory_mb(text) for text in ("512", "64g", "1.5T", "2GiB")] == [
        512, 65536, 1572864, 2048,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no amount of memory"):
        memory_mb("much")
