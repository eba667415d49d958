"""What the commands around jobs send and print; the server is played at the level of HTTP."""

from __future__ import annotations

import io
import json
import re
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
from skep_client.cli.logs import said
from skep_client.cli.reach import _ports
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


def test_finding_j7_submit_and_run_name_the_jobs_to_wait_for(server):
    server.get("/virtual-clusters").respond(json={"results": [], "next": None})
    route = server.post("/jobs").respond(201, json=JOB)
    after = ("--after", "prepare", "--after", "afterany:alice~other")
    assert skep("submit", "-", *after, text=SCRIPT).exit_code == 0
    assert skep("run", *after, "--", "true").exit_code == 0
    wanted = [
        {"job": "prepare", "condition": "afterok"},
        {"job": "alice~other", "condition": "afterany"},
    ]
    for call in route.calls:
        assert read(call.request.content.decode()).data["extras"]["skep"]["dependsOn"] == wanted
    wrong = skep("run", "--after", "later:x", "--", "true")
    assert (wrong.exit_code, "afternotok" in wrong.output) == (2, True)


def test_a_singleton_waits_for_the_callers_unfinished_jobs_of_its_name(server):
    names = ("train", "train-0a1b", "train-large", "pretrain", "train-0A1B-x")
    found = [JOB | {"id": f"{ID[:-1]}{n}", "name": name} for n, name in enumerate(names)]
    me = {"id": 1, "username": "alice", "is_admin": False}
    server.get("/me").respond(json=me)
    asked = server.get("/jobs").respond(json={"results": found, "next": None})
    route = server.post("/jobs").respond(201, json=JOB)
    script = SCRIPT.replace("-n 1", "-n 1 -J train --dependency=singleton,afterok:prepare")
    done = skep("submit", "-", "--force-name-suffix", text=script)
    assert done.exit_code == 0, done.output
    data = submitted(route)
    assert re.fullmatch("train-[0-9a-f]{4}", data["name"])
    assert data["extras"]["skep"]["dependsOn"] == [
        {"job": "prepare", "condition": "afterok"},
        {"job": found[0]["id"], "condition": "afterany"},
        {"job": found[1]["id"], "condition": "afterany"},
    ]
    params = asked.calls[0].request.url.params
    assert (params["owner"], params["state"]) == ("alice", "WAITING,RUNNING,STOPPING")


def test_finding_j7_an_array_over_nodes_is_submitted_as_so_many_jobs(server):
    """At most two at a time: each job waits for the one that is two before it."""
    route = server.post("/jobs").respond(201, json=JOB)
    script = "#!/bin/sh\n#SBATCH -J sweep -N 2 --array=1-7:2%2\nsrun ./step $SLURM_ARRAY_TASK_ID\n"
    assert skep("submit", "-", text=script).exit_code == 0
    sent = [read(call.request.content.decode()).data for call in route.calls]
    assert [data["name"] for data in sent] == ["sweep-1", "sweep-3", "sweep-5", "sweep-7"]
    after = [data.get("extras", {}).get("skep", {}).get("dependsOn", []) for data in sent]
    assert after == [[], []] + [
        [{"job": job, "condition": "afterany"}] for job in ("sweep-1", "sweep-3")
    ]
    assert "SLURM_ARRAY_TASK_ID=5" in str(sent[2]["taskRoles"])
    one = skep("convert", "--array-index", "3", "-", text=script)
    assert read(one.stdout).data["name"] == "sweep-3"
    refused = skep("convert", "-", text=script)
    assert (refused.exit_code, "--array-index 1" in refused.output) == (1, True)


def test_a_run_sends_the_file_that_print_shows(server):
    server.get("/virtual-clusters").respond(json={"results": [], "next": None})
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
    result = skep(*words)
    assert result.stdout == f"Submitted train ({ID})\n"
    assert f"https://skep.test/jobs/{ID}" in result.stderr
    assert submitted(route) == read(printed.output).data
    assert route.calls[0].request.headers["Idempotency-Key"]


def test_a_run_without_a_name_gets_a_new_one_each_time(server):
    server.get("/virtual-clusters").respond(json={"results": [], "next": None})
    route = server.post("/jobs").respond(201, json=JOB)
    skep("run", "--", "python", "train.py")
    skep("run", "--", "python", "train.py")
    names = [read(call.request.content.decode()).data["name"] for call in route.calls]
    assert names[0] != names[1]
    assert all(name.startswith("train-") for name in names)


def test_a_folder_is_sent_along_unless_the_server_has_it(server, tmp_path):
    server.get("/virtual-clusters").respond(json={"results": [], "next": None})
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
    server.get("/virtual-clusters").respond(json={"results": [], "next": None})
    for words in (["--memory", "much"], ["--time", "soon"], ["-e", "NO_SUCH_VARIABLE_HERE"]):
        assert skep("run", *words, "--", "ls").exit_code == 2


def test_a_foreign_file_is_converted_with_notes_for_people(server):
    route = server.post("/jobs").respond(201, json=JOB)
    result = skep("submit", "-", text=SCRIPT)
    assert "-:3: note: --qos: set extras.hivedScheduler.jobPriorityClass" in result.stderr
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


def test_show_says_why_it_failed_what_it_used_and_its_attempts(server):
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
    for result in (
        "CUDA out of memory (226 CudaOutOfMemory) in worker-1 on gpu-7",
        "OutOfMemoryError: CUDA",
        "worker-1 stderr, line 412",
        "Take a smaller batch.",
        "16.40, 5 % of them busy",
        "It asked 8 GPUs and used 5 % of them.",
        "gpu-3 was lost.",
    ):
        assert result in output


def test_show_goes_on_while_its_use_is_not_counted(server):
    server.get(f"/jobs/{ID}").respond(json={**JOB, "attempt": 1, "diagnosing": True})
    server.get(f"/jobs/{ID}/tasks").respond(json={"results": []})
    server.get(f"/jobs/{ID}/use").respond(404, json={"code": "not_yet", "message": "Later."})
    result = skep("show", ID)
    assert result.exit_code == 0
    assert "Its logs are being read" in result.output


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


def test_events_are_reported_once_until_the_job_ends(server):
    server.get(f"/jobs/{ID}").respond(json=JOB)
    found = [{"id": n, "at": NOW, "kind": "job.queued", "message": f"Story {n}."} for n in (1, 2)]
    server.get(f"/jobs/{ID}/events").respond(json={"results": found})
    output = skep("events", "-f", ID).output
    assert [line.split("Story ")[1] for line in output.splitlines()] == ["1.", "2."]


def test_events_of_one_kind_that_are_one_row_show_how_many_they_are(server, monkeypatch):
    monkeypatch.setattr("skep_client.follow.LOOK_AGAIN_S", 0)
    row = {"id": 1, "at": NOW, "kind": "job.preempted", "message": "Preempted."}
    pages = [{"results": [{**row, "count": count}]} for count in (11, 12, 12)]
    states = ["RUNNING", "RUNNING", "RUNNING", "SUCCEEDED"]
    jobs = [httpx.Response(200, json={**JOB, "state": state}) for state in states]
    server.get(f"/jobs/{ID}").mock(side_effect=jobs)
    server.get(f"/jobs/{ID}/events").mock(
        side_effect=[httpx.Response(200, json=page) for page in pages]
    )
    output = skep("events", "-f", ID).output
    assert [line.split()[-1] for line in output.splitlines()] == ["×11", "×12"]


def test_jobs_are_listed_by_cause_and_time(server):
    asked = server.get("/jobs").respond(json={"results": [JOB]})
    words = ("--cause", "GPU out of memory", "--cause", "221", "--since", "7d")
    assert skep("ls", *words, "--until", "2026-11-23").exit_code == 0
    params = asked.calls[0].request.url.params
    assert params["cause"] == "GPU out of memory,221"
    assert (params["since"], params["until"]) == ("7d", "2026-11-23")


def test_a_row_stays_one_line_when_the_output_is_piped(server, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    long = {**JOB, "name": "n" * 120, "virtual_cluster": "v" * 60}
    server.get("/jobs").respond(json={"results": [long]})
    _, row = skep("ls").output.splitlines()
    assert long["name"] in row
    assert long["virtual_cluster"] in row
    server.get(f"/jobs/{ID}").respond(json=JOB)
    result = {"id": 1, "at": NOW, "kind": "job.queued", "message": "word " * 50 + "end."}
    server.get(f"/jobs/{ID}/events").respond(json={"results": [result]})
    for words in (["events", ID], ["events", "-f", ID]):
        assert result["message"] in skep(*words).output


def test_names_are_completed_and_a_server_that_is_away_is_not_waited_for(server):
    server.get("/jobs").respond(json={"results": [JOB, JOB, {**JOB, "name": "other-train"}]})
    assert job_names("tr") == ["train"]
    server.get("/jobs").mock(side_effect=httpx.ConnectError("away"))
    assert job_names("tr") == []


def task(phase: str, percent: int | None = None) -> Task:
    attempt = {"id": "1", "phase": phase, "pull_percent": percent}
    return Task.model_validate({"id": 1, "attempt": attempt})


def test_it_is_shown_how_far_the_images_are():
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
def test_programs_end_with_stable_codes_and_report_json(status, code, tmp_path):
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
        {"com.microsoft.pai.runtimeplugin": [{"plugin": "azure_storage"}]},
        {"com.microsoft.pai.runtimeplugin": [{"plugin": "my_storage", "parameters": {"a": 1}}]},
    ],
)
def test_finding_u9_a_storage_that_is_not_mounted_is_refused_unless_it_is_ignored(server, extras):
    server.get("/virtual-clusters").respond(json={"results": [], "next": None})
    route = server.post("/jobs").respond(201, json=JOB)
    data = read(skep("run", "--print", "--", "ls").output).data
    text = json.dumps(data | {"extras": extras})
    refused = skep("submit", "-", text=text)
    assert (refused.exit_code, route.called) == (1, False)
    assert "--ignore-storage" in refused.stderr
    assert skep("submit", "-", "--ignore-storage", text=text).exit_code == 0
    assert route.called


def test_finding_u9_a_job_that_names_no_storage_is_submitted(server):
    server.get("/virtual-clusters").respond(json={"results": [], "next": None})
    route = server.post("/jobs").respond(201, json=JOB)
    text = skep("run", "--print", "--", "ls", "/storage").output
    assert skep("submit", "-", text=text).exit_code == 0
    assert route.called


def test_announcements_are_listed_added_and_deleted(server):
    row = {
        "id": ID,
        "message": "Rack r2 is off.",
        "severity": "warning",
        "created_at": NOW,
        "expires_at": None,
    }
    page = {"results": [row], "next": None, "previous": None}
    server.get("/announcements").respond(200, json=page)
    added = server.post("/announcements").respond(201, json=row)
    server.delete(f"/announcements/{ID}").respond(204)
    until = "2027-01-31T18:00:00+01:00"
    assert "Rack r2 is off." in skep("announcements").stdout
    done = skep("announcements", "add", "Rack r2 is off.", "--warning", "--until", until)
    assert (done.exit_code, ID in done.output) == (0, True)
    sent = json.loads(added.calls[0].request.content)
    assert sent == {"message": "Rack r2 is off.", "severity": "warning", "expires_at": until}
    assert skep("announcements", "delete", ID).exit_code == 0


def test_a_sweep_submits_each_combination(server):
    one = {"index": 0, "id": ID, "name": "night-1", "code": "", "message": "", "details": None}
    other = {"index": 1, "id": None, "name": "", "code": "job_name_taken", "message": "Taken."}
    results = {"accepted": 1, "refused": 1, "results": [one, other | {"details": None}]}
    route = server.post("/jobs/batch").respond(json=results)
    asked = ("sweep", "-", "--set", "lr=0.1,1e-2", "--set", "kind=adam", "--name", "night")
    found = skep(*asked, text="type: job")
    assert found.exit_code == 1  # one of the jobs was refused
    assert "night-1  lr=0.1 kind=adam" in re.sub(r" {2,}", "  ", found.output)
    assert "job_name_taken: Taken." in found.output
    sent = json.loads(route.calls[0].request.content)
    assert sent["sweep"] == [{"lr": 0.1, "kind": "adam"}, {"lr": 0.01, "kind": "adam"}]
    assert (sent["file"], sent["name"], sent["first"]) == ("type: job", "night", 1)


def test_a_sweep_without_submitting(server):
    found = skep("sweep", "-", "--set", "a=1,2", "--set", "b=x,y", "--dry-run", text="type: job")
    assert [line.split()[1:] for line in found.output.splitlines()[1:]][-4:] == [
        ["a=1", "b=x"],
        ["a=1", "b=y"],
        ["a=2", "b=x"],
        ["a=2", "b=y"],
    ]


@pytest.mark.parametrize("value", ["lr", "lr=", "=1", f"lr={','.join('1' * 1001)}"])
def test_what_is_no_choice_of_values_is_refused(server, value):
    found = skep("sweep", "-", "--set", value, text="type: job")
    assert found.exit_code == 2
    assert "--set" in found.output or "at most 1000" in found.output
