"""What the commands around jobs send and print; the server is played at the level of HTTP."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx
from typer.testing import CliRunner, Result

from skep_client.cli import app
from skep_client.cli.completion import job_names
from skep_client.cli.copy import Place, place
from skep_client.cli.reach import _ports
from skep_client.cli.starting import said
from skep_client.models import JobSummary, Task
from skep_jobfile.document import read

API = "https://skep.test/api/v1"
ID = "0193a2b4-0000-7000-8000-000000000001"
NOW = datetime(2026, 11, 21, 8, 0, tzinfo=UTC).isoformat()
JOB: dict[str, Any] = {
    "id": ID, "name": "train", "owner": "alice", "virtual_cluster": "vision", "state": "FAILED",
    "gpus": 8, "tasks": 2, "attempt": 2, "submitted_at": NOW, "finished_at": NOW, "tags": ["a"],
}  # fmt: skip
SCRIPT = "#!/bin/sh\n#SBATCH -n 1\n#SBATCH --qos=high\nls\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("SKEP_SERVER", "https://skep.test")
    monkeypatch.setenv("SKEP_TOKEN", "secret")
    with respx.mock(base_url=API, assert_all_called=False) as router:
        yield router


def skep(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(app, arguments, input=text)


def submitted(route: respx.Route) -> dict[str, Any]:
    return read(route.calls[0].request.content.decode()).data


def test_a_run_sends_the_file_that_print_shows(server):
    route = server.post("/jobs").respond(201, json=JOB)
    words = (
        "run",
        "--name",
        "x",
        "--gpus",
        "2",
        "--nodes",
        "2",
        "-e",
        "A=1",
        "--",
        "torchrun",
        "t.py",
    )
    printed = skep(*words[:-3], "--print", *words[-3:])
    assert not route.called
    told = skep(*words)
    assert told.stdout == f"Submitted train ({ID})\n"
    assert f"https://skep.test/jobs/{ID}" in told.stderr
    assert submitted(route) == read(printed.output).data
    assert route.calls[0].request.headers["Idempotency-Key"]


def test_a_run_without_a_name_gets_a_new_one_each_time(server):
    route = server.post("/jobs").respond(201, json=JOB)
    skep("run", "--", "python", "train.py")
    skep("run", "--", "python", "train.py")
    names = [read(call.request.content.decode()).data["name"] for call in route.calls]
    assert names[0] != names[1]
    assert all(name.startswith("train-") for name in names)


def test_a_folder_is_sent_along_unless_the_server_has_it(server, tmp_path):
    (tmp_path / "train.py").write_text("print(1)")
    known: list[str] = []
    server.get(url__regex=r".*/files/[0-9a-f]{64}").mock(
        side_effect=lambda request: httpx.Response(
            200 if request.url.path.rpartition("/")[2] in known else 404,
            json={"sha256": "0", "code": "not_found", "message": "No."},
        )
    )
    sent = server.post("/files").respond(201, json={"sha256": "0"})
    route = server.post("/jobs").respond(201, json=JOB)
    done = skep("run", "--workdir", str(tmp_path), "--", "python train.py")
    assert done.exit_code == 0, done.output
    with tarfile.open(fileobj=io.BytesIO(sent.calls[0].request.content)) as tar:
        assert tar.getnames() == ["train.py"]
    archive = submitted(route)["extras"]["skep"]["workingFiles"]["archive"]
    known.append(archive.removeprefix("sha256:"))
    skep("submit", "-", "--workdir", str(tmp_path), text=skep("run", "--print", "--", "ls").output)
    assert sent.call_count == 1
    again = read(route.calls[1].request.content.decode()).data
    assert again["extras"]["skep"]["workingFiles"] == {"archive": archive}


def test_values_that_make_no_job_are_wrong_use(server):
    for words in (["--memory", "much"], ["--time", "soon"], ["-e", "NO_SUCH_VARIABLE_HERE"]):
        assert skep("run", *words, "--", "ls").exit_code == 2


def test_a_foreign_file_is_converted_with_notes_for_people(server):
    route = server.post("/jobs").respond(201, json=JOB)
    told = skep("submit", "-", text=SCRIPT)
    assert "-:3: note: --qos: set extras.hivedScheduler.jobPriorityClass" in told.stderr
    assert submitted(route)["taskRoles"]["worker"]["instances"] == 1
    checked = server.post("/jobs/check").respond(json={"valid": True})
    skep("check", "-", text=SCRIPT)
    assert submitted(checked)["protocolVersion"] == 2
    offline = json.loads(skep("check", "--offline", "--json", "-", text=SCRIPT).stdout)
    assert offline["entrypoints"]["worker"].startswith("export SLURM_JOB_ID")


def test_a_conversion_is_printed_or_refused_without_a_server(server):
    found = json.loads(skep("convert", "-", "--json", text=SCRIPT).stdout)
    assert found["notes"][-1]["line"] == 3
    assert read(found["text"]).data["name"] == "slurm-job"
    bad = skep("convert", "-", text="#SBATCH --nodes=many\nls")
    assert bad.exit_code == 1
    assert "-:1:1: 'many' is no value of --nodes. (invalid_value)" in bad.stderr


DIAGNOSIS = {
    "code": 226, "name": "CudaOutOfMemory", "type": "USER_FAILURE",
    "category": "CUDA out of memory",
    "evidence": {"source": "log", "text": "OutOfMemoryError: CUDA", "log": "worker-1 stderr",
                 "line": 412},
    "remedy": "Take a smaller batch.", "task": "worker-1", "node": "gpu-7",
}  # fmt: skip


def test_show_tells_why_it_failed_what_it_used_and_its_attempts(server):
    server.get(f"/jobs/{ID}").respond(json={**JOB, "diagnosis": DIAGNOSIS})
    server.get(f"/jobs/{ID}/tasks").respond(json={"results": []})
    attempts = [
        {"index": 2, "outcome": "FAILED", "placed_at": NOW, "diagnosis": DIAGNOSIS},
        {"index": 1, "outcome": "RETRIED", "placed_at": NOW,
         "reason": {"code": "node_lost", "message": "gpu-3 was lost."}},
    ]  # fmt: skip
    server.get(f"/jobs/{ID}/attempts").respond(json={"results": attempts})
    use = {
        "gpu_hours": 16.4,
        "gpu_utilization": 5.2,
        "asked": {"gpus": 8},
        "advice": [{"code": "gpus_idle", "message": "It asked 8 GPUs and used 5 % of them."}],
    }
    server.get(f"/jobs/{ID}/use").respond(json=use)
    output = skep("show", ID).output
    for told in (
        "CUDA out of memory (226 CudaOutOfMemory) in worker-1 on gpu-7",
        "OutOfMemoryError: CUDA",
        "worker-1 stderr, line 412",
        "Take a smaller batch.",
        "16.40, 5 % of them busy",
        "It asked 8 GPUs and used 5 % of them.",
        "gpu-3 was lost.",
    ):
        assert told in output


def test_show_goes_on_while_its_use_is_not_counted(server):
    server.get(f"/jobs/{ID}").respond(json={**JOB, "attempt": 1, "diagnosing": True})
    server.get(f"/jobs/{ID}/tasks").respond(json={"results": []})
    server.get(f"/jobs/{ID}/use").respond(404, json={"code": "not_yet", "message": "Later."})
    told = skep("show", ID)
    assert told.exit_code == 0
    assert "Its logs are being read" in told.output


def test_tags_are_added_and_removed_in_one_change(server):
    server.get(f"/jobs/{ID}").respond(json={**JOB, "tags": ["a", "b"]})
    route = server.put(f"/jobs/{ID}/tags").respond(json={**JOB, "tags": ["b", "c"]})
    assert skep("tag", ID, "c", "-r", "a").output == "b\nc\n"
    assert json.loads(route.calls[0].request.content) == {"tags": ["b", "c"]}
    skep("tag", ID)
    assert route.call_count == 1


def test_a_clone_has_another_name(server):
    server.get(f"/jobs/{ID}").respond(json=JOB)
    route = server.post(f"/jobs/{ID}/clone").respond(201, json={**JOB, "name": "again"})
    assert "Submitted again" in skep("clone", ID, "--name", "again").output
    assert json.loads(route.calls[0].request.content) == {"name": "again"}


def test_top_adds_up_the_gpus_of_each_job(server):
    gpus = [
        {"uuid": str(n), "model": "A100", "memory_mb": 1024, "utilization": u,
         "memory_used_mb": 512, "used_by": {"job_id": ID}}
        for n, u in enumerate((20.0, 60.0))
    ]  # fmt: skip
    server.get("/nodes").respond(json={"results": [{"id": "1", "name": "n", "gpus": gpus}]})
    server.get("/jobs").respond(json={"results": [{**JOB, "state": "RUNNING", "started_at": NOW}]})
    row = json.loads(skep("top", "--json").output)[0]
    assert (row["gpu_percent"], row["memory_mb"]) == (40.0, 1024)
    assert "40 %" in skep("top", "--once").output


def test_events_are_told_once_until_the_job_ends(server):
    server.get(f"/jobs/{ID}").respond(json=JOB)
    found = [{"id": n, "at": NOW, "kind": "job.queued", "message": f"Story {n}."} for n in (1, 2)]
    server.get(f"/jobs/{ID}/events").respond(json={"results": found})
    output = skep("events", "-f", ID).output
    assert [line.split("Story ")[1] for line in output.splitlines()] == ["1.", "2."]


def test_a_row_stays_one_line_when_the_output_is_piped(server, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    long = {**JOB, "name": "n" * 120, "virtual_cluster": "v" * 60}
    server.get("/jobs").respond(json={"results": [long]})
    _, row = skep("ls").output.splitlines()
    assert long["name"] in row
    assert long["virtual_cluster"] in row
    server.get(f"/jobs/{ID}").respond(json=JOB)
    told = {"id": 1, "at": NOW, "kind": "job.queued", "message": "word " * 50 + "end."}
    server.get(f"/jobs/{ID}/events").respond(json={"results": [told]})
    for words in (["events", ID], ["events", "-f", ID]):
        assert told["message"] in skep(*words).output


def test_names_are_completed_and_a_server_that_is_away_is_not_waited_for(server):
    server.get("/jobs").respond(json={"results": [JOB, JOB, {**JOB, "name": "other-train"}]})
    assert job_names("tr") == ["train"]
    server.get("/jobs").mock(side_effect=httpx.ConnectError("away"))
    assert job_names("tr") == []


def task(phase: str, percent: int | None = None) -> Task:
    attempt = {"id": "1", "phase": phase, "pull_percent": percent}
    return Task.model_validate({"id": 1, "attempt": attempt})


def test_it_is_told_how_far_the_images_are():
    waits = JobSummary.model_validate({**JOB, "state": "WAITING"})
    assert said(waits, [])[0].startswith("train waits.")
    placed = JobSummary.model_validate({**JOB, "placed_at": NOW})
    tasks = [task("pulling", 40), task("pulling"), task("ready"), task("creating")]
    assert said(placed, tasks) == ("2 of 4 tasks pull their image", 60.0)
    assert said(placed, [task("ready"), task("creating")]) == ("1 of 2 tasks are ready", 50.0)


PLACES = [
    ("./a:b", Place("", "", "./a:b")), ("/a:b", Place("", "", "/a:b")),
    ("train:/x", Place("train", "", "/x")),
    ("train:worker-1:/x:y", Place("train", "worker-1", "/x:y")),
    ("train:3:/x", Place("train", "3", "/x")), ("train:sub/x", Place("train", "", "sub/x")),
    ("alice/train:/x", Place("alice/train", "", "/x")), ("data", Place("", "", "data")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PLACES)
def test_a_place_is_here_or_in_a_task(text, expected):
    assert place(text) == expected


def test_ports_are_named_alone_or_in_pairs():
    assert [_ports(t) for t in ("8888", "9000:6006", ":80")] == [
        (8888, 8888),
        (9000, 6006),
        (0, 80),
    ]
    assert skep("port-forward", ID, "99999").exit_code == 2


CODES = [(401, 3), (404, 4), (409, 5)]


@pytest.mark.parametrize(("status", "code"), CODES)
def test_programs_end_with_stable_codes_and_tell_json(status, code, tmp_path):
    """In a process of its own: exit codes are made in `main`."""
    text = f'''
import sys, respx, httpx
from skep_client.cli import main
sys.argv = ["skep", "show", "{ID}", "--json"]
with respx.mock:
    respx.get("https://skep.test/api/v1/jobs/{ID}").respond(
        {status}, json={{"code": "c", "message": "Not so.", "details": {{}}}})
    main()
'''
    environment = {"SKEP_SERVER": "https://skep.test", "SKEP_TOKEN": "t", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, check=False
    )
    assert done.returncode == code
    assert json.loads(done.stderr.splitlines()[0])["message"] == "Not so."


def test_help_is_quick_to_load(tmp_path: Path):
    """Neither HTTP nor models are imported for it."""
    text = (
        "import sys; from skep_client.cli import app; print({'httpx', 'pydantic'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    "extras",
    [
        {"com.microsoft.pai.runtimeplugin": [{"plugin": "teamwise_storage"}]},
        {
            "com.microsoft.pai.runtimeplugin": [
                {"plugin": "teamwise_storage", "parameters": {"storageConfigNames": ["nfs"]}}
            ]
        },
        {"storages": []},
    ],
)
def test_finding_u9_a_storage_that_is_not_mounted_is_refused_unless_it_is_ignored(server, extras):
    route = server.post("/jobs").respond(201, json=JOB)
    data = read(skep("run", "--print", "--", "ls").output).data
    text = json.dumps(data | {"extras": extras})
    refused = skep("submit", "-", text=text)
    assert (refused.exit_code, route.called) == (1, False)
    assert "--ignore-storage" in refused.stderr
    assert skep("submit", "-", "--ignore-storage", text=text).exit_code == 0
    assert route.called


def test_finding_u9_a_job_that_names_no_storage_is_submitted(server):
    route = server.post("/jobs").respond(201, json=JOB)
    text = skep("run", "--print", "--", "ls", "/storage").output
    assert skep("submit", "-", text=text).exit_code == 0
    assert route.called
