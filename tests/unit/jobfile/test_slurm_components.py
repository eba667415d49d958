"""Heterogeneous jobs of Slurm, and steps of several programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.slurm import entrypoint, over_roles, run

from skep_jobfile.document import read
from skep_jobfile.importers import convert

HETEROGENEOUS = """\
#!/bin/bash
#SBATCH --job-name=coupled --time=1:00:00
#SBATCH -N 1 -n 1 --mem=4G
#SBATCH hetjob
#SBATCH -N 2 --ntasks-per-node=2 --gpus-per-task=1 -c 4 --mem=8G
"""


def test_components_of_a_heterogeneous_job_become_task_roles() -> None:
    found = convert(HETEROGENEOUS + "srun true\n")
    data = read(found.text).data
    roles = data["taskRoles"]
    assert {name: role["instances"] for name, role in roles.items()} == {"worker": 1, "worker1": 2}
    assert roles["worker"]["resourcePerInstance"] == {"cpu": 1, "memoryMB": 4096, "gpu": 0}
    assert roles["worker1"]["resourcePerInstance"] == {"cpu": 8, "memoryMB": 8192, "gpu": 2}
    assert data["name"] == "coupled"
    assert {"components", "steps"} <= {note.code for note in found.notes}


def test_options_of_the_whole_job_in_a_later_component_are_noted() -> None:
    found = convert("#!/bin/sh\n#SBATCH -n 1\n#SBATCH hetjob\n#SBATCH -n 1 --time=9\ntrue\n")
    assert ("not_carried_over", 4) in {(note.code, note.line) for note in found.notes}
    assert "maxDuration" not in found.text


def test_srun_starts_processes_in_the_components_that_it_names(tmp_path: Path) -> None:
    show = "sh -c 'echo $SLURM_PROCID/$SLURM_NTASKS $SLURM_NODEID $CUDA_VISIBLE_DEVICES'"
    done = over_roles(
        HETEROGENEOUS
        + f"echo $SLURM_HET_SIZE $SLURM_NTASKS_HET_GROUP_1\nsrun {show}\n"
        + "scontrol show hostnames $SLURM_JOB_NODELIST_HET_GROUP_1\n"
        + f"srun --het-group=1 {show}\n"
        + f"srun {show} : --het-group=1 -n 3 {show}\n"
        + "srun --het-group=4 true || echo refused $?\n",
        tmp_path,
        {"worker": 1, "worker1": 2},
    )
    assert [code for code, _, _ in done] == [0, 0, 0], done
    first, second, third = (text.splitlines() for _, text, _ in done)
    assert first == ["2 4", "0/1 0", "127.0.0.2", "127.0.0.3", "0/4 0", "refused 1"]
    assert sorted(second) == ["0/4 1 0", "1/4 1 0", "1/4 1 1", "2/4 1 1"]
    assert sorted(third) == ["2/4 2 0", "3/4 2 0", "3/4 2 1"]


@pytest.mark.parametrize("joined", [" : ", " : \\\n  "])
def test_srun_of_several_programs_numbers_their_processes_through(joined: str) -> None:
    """On one node too: `srun -n1 a : -n2 b` is one step."""
    show = "sh -c 'echo {} $SLURM_PROCID/$SLURM_NTASKS $RANK $WORLD_SIZE'"
    text = (
        "#!/bin/sh\n#SBATCH -N 1 -n 3\n"
        f"srun -n1 {show.format('head')}{joined}-n2 {show.format('tail')}\n"
        "srun -n1 true : -n1 sh -c 'exit 5' || echo failed $?\n"
    )
    done = run(entrypoint(text), PAI_TASK_INDEX="0", PAI_TASK_ROLE_worker_HOST_LIST="127.0.0.1:1")
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    assert sorted(lines) == ["head 0/3 0 3", "tail 1/3 1 3", "tail 2/3 2 3"]
    assert last == "failed 5"
