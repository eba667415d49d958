"""Batch scripts of Slurm and manifests of Kubeflow, as job files."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.slurm import entrypoint, over_nodes, run

from skep_jobfile import InvalidJobFile, compile_job, parse
from skep_jobfile.document import read
from skep_jobfile.importers import Converted, convert, detect, slurm_steps
from skep_jobfile.importers.slurm_options import gres_gpus, memory_mb, seconds
from skep_jobfile.writing import dump

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "importers"
ALL = sorted(path.name for path in SAMPLES.iterdir())


def converted(name: str) -> tuple[dict[str, Any], Converted]:
    found = convert((SAMPLES / name).read_text())
    return read(found.text).data, found


def reported(found: Converted) -> set[tuple[str, int]]:
    return {(note.code, note.line) for note in found.notes}


@pytest.mark.parametrize("name", ALL)
def test_each_sample_becomes_a_job_that_compiles(name: str) -> None:
    found = convert((SAMPLES / name).read_text())
    assert compile_job(found.text)["entrypoints"]
    assert detect(found.text) is None


def test_a_batch_script_asks_for_the_same_as_before() -> None:
    data, found = converted("ddp.sbatch")
    assert data["name"] == "resnet50-ddp"
    assert data["defaults"] == {"virtualCluster": "gpu"}
    worker = data["taskRoles"]["worker"]
    assert worker["instances"] == 2
    assert worker["resourcePerInstance"] == {"cpu": 32, "memoryMB": 204800, "gpu": 4}
    assert data["extras"]["skep"] == {
        "maxDuration": 95400,
        "checkpoint": {"signal": "SIGUSR1", "grace": 120},
        "environment": {"DATA": "/data/a,b"},
        "dependsOn": [{"job": "1234", "condition": "afterok"}],
    }
    assert reported(found) >= {
        ("renamed", 2), ("gpu_type", 4), ("virtual_cluster", 8), ("not_carried_over", 9),
        ("checkpoint", 10), ("dependency", 11), ("not_carried_over", 12), ("modules", 16),
        ("choose_image", 1), ("steps", 1),
    }  # fmt: skip


def test_an_image_of_pyxis_is_taken_along() -> None:
    data, found = converted("torchrun.sbatch")
    assert data["prerequisites"][0]["uri"] == "nvcr.io/nvidia/pytorch:24.10-py3"
    assert data["extras"]["skep"]["workDir"] == "/fsx/project"
    assert data["taskRoles"]["worker"]["resourcePerInstance"]["memoryMB"] == 960 * 1024
    assert ("container_mounts", 13) in reported(found)


def test_tasks_with_one_gpu_each_are_put_on_nodes() -> None:
    data, found = converted("tasks.sbatch")
    worker = data["taskRoles"]["worker"]
    assert (worker["instances"], worker["resourcePerInstance"]["gpu"]) == (2, 8)
    assert worker["resourcePerInstance"]["cpu"] == 48
    assert "nodes_chosen" in {note.code for note in found.notes}


def test_srun_starts_the_processes_of_one_node() -> None:
    script = entrypoint(
        "#!/bin/bash\n#SBATCH -N 1 --ntasks-per-node=2 --gpus-per-task=2\n"
        "set -eu\nx=(a 'b c')\n"
        "srun -l --cpu-bind none -c 4 -- sh -c 'echo $SLURM_PROCID/$SLURM_NTASKS $RANK "
        "$SLURM_LOCALID $CUDA_VISIBLE_DEVICES $SLURM_JOB_ID'\n"
        'echo "<% ${x[1]} %>"\nscontrol show hostnames $SLURM_JOB_NODELIST | head -n 1\n'
    )
    done = run(script, PAI_TASK_INDEX="0")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sorted(lines[:2]) == ["0/2 0 0 0,1 77", "1/2 1 1 2,3 77"]
    assert lines[2:] == ["<% b c %>", "10.0.0.1"]


def test_finding_j7_a_script_runs_on_the_first_node_and_srun_on_all(tmp_path: Path) -> None:
    """As in Slurm: what is not behind `srun` happens once."""
    first, second = over_nodes(
        "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=2 --gpus-per-task=2\nset -eu\n"
        "echo once $SLURM_JOB_ID\nexport FROM_SCRIPT=here\n"
        "srun -l --cpu-bind none sh -c 'echo $SLURM_PROCID/$SLURM_NTASKS $SLURM_NODEID "
        "$CUDA_VISIBLE_DEVICES $FROM_SCRIPT $NVIDIA_VISIBLE_DEVICES'\necho done\n",
        tmp_path,
        2,
    )
    assert (first[0], second[0]) == (0, 0), first[2] + second[2]
    lines = first[1].splitlines()
    assert (lines[0], lines[-1]) == ("once 255", "done")
    assert sorted(lines[1:-1]) == ["0/4 0 0,1 here GPU-of-0", "1/4 0 2,3 here GPU-of-0"]
    assert sorted(second[1].splitlines()) == [
        "2/4 1 0,1 here GPU-of-1",
        "3/4 1 2,3 here GPU-of-1",
    ]


def test_finding_j7_a_script_reads_what_its_steps_print(tmp_path: Path) -> None:
    """`$(srun hostname)` is how scripts find their head node."""
    done = over_nodes(
        "#!/bin/bash\n#SBATCH -N 2\n"
        "all=$(srun sh -c 'echo node $SLURM_NODEID')\necho \"$all\" | sort\n"
        "nodes=($(scontrol show hostnames $SLURM_JOB_NODELIST))\n"
        "echo one $(srun -N 1 -n 1 -w ${nodes[1]} sh -c 'echo $SLURM_NODEID')\n",
        tmp_path,
        2,
    )
    assert done[0][:2] == (0, "node 0\nnode 1\none 1\n"), done[0][2] + done[1][2]
    assert done[1][1] == ""


def test_finding_j7_a_job_over_nodes_ends_as_its_script(tmp_path: Path) -> None:
    """A step that fails elsewhere fails the script under `set -e`, and with it all nodes."""
    done = over_nodes(
        "#!/bin/sh\n#SBATCH -N 3\nset -e\nsrun sh -c 'exit $((SLURM_NODEID * 3))'\necho never\n",
        tmp_path,
        3,
    )
    assert [code for code, _, _ in done] == [6, 6, 6], done
    assert done[0][1] == ""


def test_finding_j7_an_array_becomes_tasks_with_its_indices() -> None:
    """Each of them finds its index, and a failed one does not end the others."""
    text = (
        "#!/bin/sh\n#SBATCH --array=1,5-9:2%2\necho $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_MAX"
    )
    found = convert(text)
    data = read(found.text).data
    worker = data["taskRoles"]["worker"]
    assert worker["instances"] == 4
    assert worker["completion"] == {"minFailedInstances": -1, "minSucceededInstances": -1}
    assert data["extras"]["gangAllocation"] is False
    assert data["extras"]["skep"]["taskRoles"] == {"worker": {"parallelism": 2}}
    assert "array" in {note.code for note in found.notes}
    script = entrypoint(text)
    printed = [run(script, PAI_TASK_INDEX=str(n)).stdout for n in range(4)]
    assert printed == ["1 of 9\n", "5 of 9\n", "7 of 9\n", "9 of 9\n"]


@pytest.mark.parametrize(
    ("options", "tasks"),
    [("", 4), ("-n 2", 2), ("-n1", 1), ("--ntasks=3 -K", 3), ("-ul --ntasks-per-node 2", 2)],
)
def test_finding_j7_srun_starts_as_many_tasks_of_one_node_as_its_options_say(options, tasks):
    text = (
        "#!/bin/sh\n#SBATCH -n 4 -N 1\n"
        f"srun {options} sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS, $RANK of $WORLD_SIZE'"
    )
    printed = sorted(run(entrypoint(text)).stdout.splitlines())
    assert printed == [f"{n} of {tasks}, {n} of {tasks}" for n in range(tasks)]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("afterok:prepare", [("prepare", "afterok")]),
        ("afterok:a:b,afternotok:c", [("a", "afterok"), ("b", "afterok"), ("c", "afternotok")]),
        ("after:alice~x+10,afterany:81", [("alice~x", "after"), ("81", "afterany")]),
        ("singleton", []),
    ],
)
def test_finding_j7_dependencies_of_a_script_become_those_of_the_job(option, expected) -> None:
    found = convert(f"#!/bin/sh\n#SBATCH --dependency={option}\ntrue\n")
    skep = read(found.text).data.get("extras", {}).get("skep", {})
    wanted = [{"job": job, "condition": condition} for job, condition in expected]
    assert skep.get("dependsOn", []) == wanted
    notes = {note.code for note in found.notes}
    assert ("dependency" in notes) == ("81" in option)
    assert ("not_carried_over" in notes) == ("+" in option)
    assert ("singleton" in notes) == (option == "singleton")


@pytest.mark.parametrize("option", ["afterok:a?afterok:b", "aftercorr:a", "afterok", "expand:3"])
def test_finding_j7_dependencies_that_do_not_exist_here_are_refused(option) -> None:
    with pytest.raises(InvalidJobFile) as raised:
        convert(f"#!/bin/sh\n#SBATCH -d {option}\ntrue\n")
    assert [problem.code for problem in raised.value.problems] == ["not_supported"]


def test_steps_are_served_to_the_gang_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reaches the port without the gang's key starts nothing."""
    monkeypatch.setenv("SKEP_STEP_KEY", str(tmp_path / "key"))
    (tmp_path / "key").write_text("ours")
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("rb") as stream:
        served = threading.Thread(target=slurm_steps.answer, args=(theirs, []))
        served.start()
        nonce = slurm_steps.receive(stream)["nonce"]
        step = json.dumps({"argv": ["touch", str(tmp_path / "made")], "count": 1})
        (tmp_path / "key").write_text("of another gang")
        wrong = slurm_steps.proof(nonce + step)
        (tmp_path / "key").write_text("ours")
        slurm_steps.send(ours, {"step": step, "proof": wrong})
        assert stream.read() == b""
        served.join(10)
    assert not (tmp_path / "made").exists()


def test_srun_fails_as_its_worst_process() -> None:
    script = entrypoint("#!/bin/sh\n#SBATCH -n 2\nsrun sh -c 'exit $((SLURM_LOCALID * 3))'")
    assert run(script, PAI_TASK_INDEX="0").returncode == 3


BAD_SCRIPTS = [
    ("invalid_value", 2, "#!/bin/sh\n#SBATCH --nodes=many\nls"),
    ("invalid_value", 1, "#SBATCH --mem=4X\nls"),
    ("invalid_value", 1, "#SBATCH -t tomorrow\nls"),
    ("unknown_option", 1, "#SBATCH nodes=4\nls"),
    ("syntax", 1, "#SBATCH --comment='half\nls"),
    ("not_supported", 1, "#SBATCH -a 0-3\n#SBATCH hetjob\n#SBATCH -n 2\nls"),
    ("not_supported", 2, "#SBATCH -n 1\n" + "#SBATCH hetjob\n" * 30 + "ls"),
    ("invalid_value", 3, "#SBATCH -n 1\n#SBATCH hetjob\n#SBATCH -N many\nls"),
    ("empty", 1, "#SBATCH -n 1\n"),
    ("unknown_format", 1, "print('hello')"),
    ("no_job", 1, "apiVersion: kubeflow.org/v1\nkind: Experiment\n"),
    ("invalid_value", 3, "apiVersion: kubeflow.org/v1\nkind: TFJob\nspec: 4\n"),
    ("invalid_character", 1, "#SBATCH -n 1\nls \0"),
]


@pytest.mark.parametrize(("code", "line", "text"), BAD_SCRIPTS)
def test_what_cannot_be_read_is_refused_with_its_line(code: str, line: int, text: str) -> None:
    with pytest.raises(InvalidJobFile) as error:
        convert(text)
    assert [(p.code, p.line) for p in error.value.problems] == [(code, line)]


@pytest.mark.parametrize("name", ["pytorchjob.yaml", "mpijob.yaml"])
def test_finding_j7_a_manifest_is_no_batch_script(name: str) -> None:
    """Whatever its sender calls it; it would run as a script otherwise."""
    with pytest.raises(InvalidJobFile) as caught:
        convert((SAMPLES / name).read_text(), "slurm")
    assert [problem.code for problem in caught.value.problems] == ["unknown_format"]


def test_two_jobs_in_one_manifest_are_refused_at_the_second() -> None:
    job = (SAMPLES / "elastic.yaml").read_text()
    with pytest.raises(InvalidJobFile) as error:
        convert(f"{job}---\n{job}")
    assert error.value.problems[0].code == "several_jobs"
    assert error.value.problems[0].line == job.count("\n") + 3


def test_replicas_become_roles_in_the_order_of_their_ranks() -> None:
    data, found = converted("pytorchjob.yaml")
    assert list(data["taskRoles"]) == ["master", "worker"]
    worker = data["taskRoles"]["worker"]
    assert worker["instances"] == 3
    assert worker["completion"] == {"minSucceededInstances": -1}
    assert worker["resourcePerInstance"] == {"cpu": 2, "memoryMB": 9537, "gpu": 2}
    assert worker["extraContainerOptions"] == {"shmMB": 8192}
    assert data["extras"]["skep"] == {"maxDuration": 3600, "environment": {"LR": "0.1"}}
    assert data["jobRetryCount"] == 3
    assert reported(found) >= {
        ("other_object", 2), ("virtual_cluster", 9), ("retries", 16), ("volume", 22),
        ("value_from", 33), ("entrypoint", 44), ("port", 45), ("other_container", 47),
    }  # fmt: skip


def test_variables_of_kubernetes_are_expanded_and_dollars_kept() -> None:
    script = compile_job(converted("pytorchjob.yaml")[1].text)["entrypoints"]["worker"]
    script = script.replace("torchrun", "echo")
    assert run(script, LR="0.1", HOME="/root").stdout == "train.py --lr 0.1\n/root\n"


def test_torchrun_of_a_trainjob_knows_its_nodes() -> None:
    data, _ = converted("trainjob.yaml")
    script = compile_job(dump(data))["entrypoints"]["worker"].replace(
        "torchrun /workspace", "env #"
    )
    assert {"PET_NNODES=2", "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=4"} <= set(
        run(script, MASTER_ADDR="m", MASTER_PORT="5").stdout.split()
    )


def test_the_launcher_of_mpi_has_the_workers_in_its_hostfile(tmp_path: Path) -> None:
    data, _ = converted("mpijob.yaml")
    assert data["extras"]["com.microsoft.pai.runtimeplugin"][0]["plugin"] == "ssh"
    assert data["taskRoles"]["worker"]["completion"] == {"minSucceededInstances": -1}
    setup = data["taskRoles"]["launcher"]["commands"][0]
    ours, hosts = tmp_path / "ours", tmp_path / "hosts"
    ours.write_text("launcher-0 slots=1\nworker-0 slots=1\nworker-11 slots=1\n")
    setup = setup.replace("/tmp/hostfile", str(hosts))
    assert run(setup, SKEP_HOSTFILE=str(ours)).returncode == 0
    assert hosts.read_text() == "worker-0 slots=8\nworker-11 slots=8\n"


def test_tensorflow_has_a_port_for_its_cluster() -> None:
    data, _ = converted("tfjob.yaml")
    assert list(data["taskRoles"]) == ["worker", "ps"]
    assert data["taskRoles"]["ps"]["resourcePerInstance"]["ports"] == {"tf": 1}
    assert data["defaults"]["virtualCluster"] == "research"
    assert data["jobRetryCount"] == 2


TIMES = [("90", 5400), ("1:30", 90), ("2:00:00", 7200), ("1-0", 86400), ("1-02:30", 95400),
         ("UNLIMITED", 0), ("1:2:3:4", None), ("soon", None)]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TIMES)
def test_times_of_slurm(text: str, expected: int | None) -> None:
    assert seconds(text) == expected


def test_quantities_of_slurm() -> None:
    assert (memory_mb("4G"), memory_mb("100"), memory_mb("1K"), memory_mb("x")) == (
        4096, 100, 1, None,
    )  # fmt: skip
    assert gres_gpus("lustre:1,gpu:a100:4(S:0-1)") == (("a100", 4), ["lustre:1"])
    assert gres_gpus("gpu") == (("", 1), [])


SCRIPT = (SAMPLES / "ddp.sbatch").read_text().split("\n")
LINES = st.sampled_from([*SCRIPT, "#SBATCH -", "srun"])
KEYS = st.sampled_from([
    "metadata", "spec", "name", "trainer", "replicas", "template", "containers", "command", "env",
    "resources", "limits", "cpu", "pytorchReplicaSpecs", "Worker", "Master", "value", "image",
    "ports", "volumes", "elasticPolicy", "labels",
])  # fmt: skip
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.floats())
TREES = st.recursive(
    LEAVES, lambda t: st.lists(t, max_size=3) | st.dictionaries(KEYS, t, max_size=5), max_leaves=25
)


def is_handled(text: str, format: str) -> None:
    with contextlib.suppress(InvalidJobFile):
        parse(convert(text, format).text)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=examples(150))
@given(st.text(max_size=200) | st.lists(LINES | st.text(max_size=30)).map("\n".join))
def test_any_text_is_converted_or_refused(text: str) -> None:
    for format in ("auto", "slurm", "kubeflow"):
        is_handled(text, format)


@settings(deadline=None, max_examples=examples(150))
@given(TREES, st.sampled_from(["PyTorchJob", "TFJob", "MPIJob", "TrainJob"]))
def test_any_manifest_is_converted_or_refused(tree: Any, kind: str) -> None:
    spec = {"apiVersion": "kubeflow.org/v1", "kind": kind, "spec": tree}
    is_handled(json.dumps(spec, ensure_ascii=True), "kubeflow")


@settings(deadline=None, max_examples=examples(200))
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=5),
        st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    )
)
def test_what_is_written_reads_back(data: dict[str, str]) -> None:
    wrapped = {"x": data, "list": list(data.values())}
    data_ok = all("\0" not in k and not any("\ud800" <= c <= "\udfff" for c in k) for k in data)
    if data_ok:
        assert read(dump(wrapped)).data == wrapped


PYTORCH_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
            - name: pytorch
              image: example/train:1
"""


@pytest.mark.parametrize(
    ("more", "command"),
    [
        ("", "skep_entrypoint"),
        ('args: ["--lr", "0.1", "a b"]', "skep_entrypoint --lr 0.1 'a b'"),
        ('args: ["/bin/sh", "-c", "x; y"]', "skep_entrypoint /bin/sh -c 'x; y'"),
        ('command: ["python"]\n              args: ["t.py"]', "python t.py"),
    ],
)
def test_finding_j8_a_container_without_a_command_runs_the_images_entrypoint(
    more: str, command: str
) -> None:
    found = convert(PYTORCH_JOB + f"              {more}\n")
    role = next(iter(read(found.text).data["taskRoles"].values()))
    assert role["commands"][-1] == command
