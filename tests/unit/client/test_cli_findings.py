"""What users of the command line found wrong; the server is played at the level of HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.client.test_cli_jobs import API, ID, JOB, NOW, server, skep  # noqa: F401

from skep_client import exits
from skep_client.cli import common
from skep_client.client import AsyncSkep, Skep
from skep_client.errors import SkepError
from skep_client.loglines import plain
from skep_jobfile.document import read

OSC52 = "\x1b]52;c;cm0gLXJmIC8=\x07"
ESCAPES = f"evil{OSC52}\x1b[2J\x1b]0;owned\x07\x9b31m\x00\u202e"
ME = {"id": 1, "username": "alice"}
FILE = "protocolVersion: 2\nname: train\ntype: job\n"


def listed(*jobs: dict[str, object]) -> dict[str, object]:
    return {"results": list(jobs), "next": None}


def test_32_finding_s10_a_table_and_a_sentence_hold_no_escape_sequence(server, capsys):  # noqa: F811
    job = JOB | {"name": ESCAPES, "exit_reason": {"code": "x", "message": ESCAPES, "details": {}}}
    server.get("/jobs").respond(json=listed(job))
    result = skep("ls").output
    server.get(f"/jobs/{ID}").respond(404, json={"code": "x", "message": ESCAPES, "details": {}})
    common.say(ESCAPES)
    for text in (result, capsys.readouterr().out):
        assert not set(text) & {"\x1b", "\x07", "\x00", "\x9b", "\u202e"}
        assert "52;c" not in text


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_finding_s10_no_control_character_of_any_text_is_left(text: str):
    kept = {c for c in plain(text) if not c.isprintable() and c not in " \n\t"}
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in kept)


def test_finding_j10_a_piped_log_is_one_transfer(server):  # noqa: F811
    server.get(f"/jobs/{ID}").respond(json=JOB)
    pages = server.get(f"/jobs/{ID}/logs")
    text = b"[worker-0] epoch 1\n[worker-1] [x] y\n"
    route = server.get(f"/jobs/{ID}/logs/download").respond(content=text)
    assert skep("logs", ID).output == "worker-0 | epoch 1\nworker-1 | [x] y\n"
    assert not pages.called
    assert route.calls[0].request.url.params["prefix"] == "true"
    assert skep("logs", ID, "--no-prefix").exit_code == 0
    assert route.calls[1].request.url.params["prefix"] == "false"


def test_finding_j10_raw_keeps_what_progress_bars_wrote_over(server):  # noqa: F811
    server.get(f"/jobs/{ID}").respond(json=JOB)
    chunk = {"attempt_id": "a", "role": "worker", "index": 0, "rank": 0, "stream": "stdout",
             "at": NOW, "text": " 10%\r 50%\r100%\n"}  # fmt: skip
    page = {"chunks": [chunk], "next": 1, "more": False, "complete": True}
    empty = page | {"chunks": []}

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=page if request.url.params["cursor"] == "0" else empty)

    server.get(f"/jobs/{ID}/logs").mock(side_effect=answer)
    assert "50%" not in skep("logs", ID, "--json", "--tail", "5").output
    raw = json.loads(skep("logs", ID, "--json", "--raw", "--tail", "5").output)
    assert raw["text"] == " 10%\r 50%\r100%"
    download = server.get(f"/jobs/{ID}/logs/download").respond(content=b"{}\n")
    assert skep("logs", ID, "--json", "--raw").output == "{}\n"
    assert download.calls[0].request.url.params["progress"] == "raw"


def test_finding_j11_each_line_is_printed_with_its_own_time(server):  # noqa: F811
    server.get(f"/jobs/{ID}").respond(json=JOB)
    chunk = {"attempt_id": "a", "role": "worker", "index": 0, "rank": 0, "stream": "stdout",
             "at": "2026-11-22T12:00:00.000250Z", "text": "one\ntwo\n",
             "line_times": [0, 1_500_000]}  # fmt: skip
    page = {"chunks": [chunk], "next": 1, "more": False, "complete": True}
    empty = page | {"chunks": []}

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.params["times"] == "true"
        return httpx.Response(200, json=page if request.url.params["cursor"] == "0" else empty)

    server.get(f"/jobs/{ID}/logs").mock(side_effect=answer)
    assert skep("logs", ID, "-t", "--tail", "5").output.splitlines() == [
        "worker-0 | 2026-11-22T12:00:00.000250Z one",
        "worker-0 | 2026-11-22T12:00:01.500250Z two",
    ]
    text = b"[worker-0] 2026-11-22T12:00:00.000250Z one\n"
    download = server.get(f"/jobs/{ID}/logs/download").respond(content=text)
    assert skep("logs", ID, "-t").output == "worker-0 | 2026-11-22T12:00:00.000250Z one\n"
    assert download.calls[0].request.url.params["timestamps"] == "true"


def test_finding_j10_a_log_is_downloaded_whole_or_not_at_all(server, tmp_path):  # noqa: F811
    server.get(f"/jobs/{ID}").respond(json=JOB)
    route = server.get(f"/jobs/{ID}/logs/download").respond(content=b"[worker-0] x\n")
    file = tmp_path / "out.log"
    assert skep("logs", ID, "--download", str(file)).exit_code == 0
    assert file.read_text() == "worker-0 | x\n"
    route.respond(410, json={"code": "gone", "message": "Deleted.", "details": {}})
    assert skep("logs", ID, "-o", str(tmp_path / "none")).exit_code != 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.log"]


def test_finding_j10_a_log_is_searched_by_the_server(server):  # noqa: F811
    server.get(f"/jobs/{ID}").respond(json=JOB)
    match = {"cursor": 1, "attempt_id": "a", "role": "worker", "index": 1, "rank": 1, "offset": 0,
             "stream": "stderr", "at": NOW, "text": "loss nan", "begin": 0, "end": 4}  # fmt: skip
    answers = [{"matches": [match], "next": "7.0"}, {"matches": [], "next": None}]
    route = server.get(f"/jobs/{ID}/logs/search")
    route.side_effect = [httpx.Response(200, json=answer) for answer in answers]
    assert skep("logs", ID, "--search", "loss").output == "worker-1 | loss nan\n"
    assert route.calls[1].request.url.params["cursor"] == "7.0"
    route.side_effect = [httpx.Response(200, json={"matches": [], "next": None})]
    assert skep("logs", ID, "--search", "none").exit_code == exits.FAILED


def test_finding_u29_a_rank_that_is_not_there_is_an_error(server):  # noqa: F811
    server.get(f"/jobs/{ID}").respond(json=JOB)
    result = skep("logs", ID, "--rank", "9")
    assert result.exit_code != 0
    assert "ranks 0 to 1: none is 9" in str(result.exception)


def test_finding_u29_a_cut_list_says_so_and_each_job_is_one_line(server, monkeypatch):  # noqa: F811
    monkeypatch.setenv("COLUMNS", "80")
    reason = {"code": "x", "message": "Needs 8 A100; " + "very long " * 40, "details": {}}
    job = JOB | {"exit_reason": reason}
    server.get("/jobs").respond(json=listed(*[job] * 3))
    result = skep("ls", "-n", "2")
    assert "newest 2; there are more: --limit" in result.stderr
    assert len(result.stdout.splitlines()) == 3
    assert "there are more" not in skep("ls", "-n", "3").stderr


def test_finding_j15_jobs_of_an_unknown_virtual_cluster_are_an_error(server):  # noqa: F811
    server.get("/jobs").respond(json=listed())
    vc = {"name": "vision", "members_count": 1, "policy": {"name": "priority_ageing"}}
    server.get("/virtual-clusters").respond(json=listed(vc))
    result = skep("ls", "--vc", "nope")
    assert result.exit_code != 0
    assert "no virtual cluster named nope" in str(result.exception)
    assert skep("ls", "--vc", "vision").exit_code == 0


def test_finding_u29_the_version_and_the_way_out(server, tmp_path, monkeypatch):  # noqa: F811
    assert skep("--version").output.startswith("skep 0.")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SKEP_TOKEN")
    from skep_client import config

    config.remember(config.Login("https://skep.test", "t"))
    route = server.post("/auth/logout").respond(204)
    assert skep("logout").exit_code == 0
    assert route.calls[0].request.headers["Authorization"] == "Bearer t"
    assert config.stored_token("https://skep.test") == ""


def test_finding_j15_a_file_is_submitted_under_another_name(server):  # noqa: F811
    route = server.post("/jobs").respond(201, json=JOB)
    assert skep("submit", "-", "--name", "again", text=FILE).exit_code == 0
    assert read(route.calls[0].request.content.decode()).data["name"] == "again"
    assert skep("submit", "-", "--force-name-suffix", text=FILE).exit_code == 0
    name = read(route.calls[1].request.content.decode()).data["name"]
    assert name.startswith("train-")
    assert name != "train-"


def test_finding_j15_print_with_json_is_json(server):  # noqa: F811
    result = skep("run", "--print", "--json", "--name", "x", "--", "ls")
    assert json.loads(result.output)["name"] == "x"


@pytest.mark.parametrize("words", [["submit", "-"], ["run", "--", "ls"], ["clone", ID]])
def test_json_of_what_follows_a_job_is_json_only(words, server):  # noqa: F811
    server.get("/virtual-clusters").respond(json={"results": [], "next": None})
    for path in ("/jobs", f"/jobs/{ID}/clone"):
        server.post(path).respond(201, json=JOB)
    server.get(f"/jobs/{ID}").respond(json=JOB)
    chunk = {"attempt_id": "a", "role": "worker", "index": 0, "rank": 0, "stream": "stdout",
             "at": NOW, "text": "one\ntwo"}  # fmt: skip
    page = {"next": 1, "more": False, "complete": True}
    server.get(f"/jobs/{ID}/logs").side_effect = [
        httpx.Response(200, json=page | {"chunks": chunks}) for chunks in ([chunk], [])
    ]
    done = skep(words[0], "--json", "-f", *words[1:], text=FILE)
    job, *lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (job["id"], [line["text"] for line in lines]) == (ID, ["one", "two"])
    assert done.exit_code == exits.FAILED
    assert "train is FAILED" in done.stderr


def test_finding_j15_a_copy_to_a_missing_folder_says_so(server, tmp_path):  # noqa: F811
    result = skep("cp", "train:/out", str(tmp_path / "no" / "such"))
    assert result.exit_code == 2
    assert "there is no folder" in result.output


def test_finding_u29_the_sdk_finds_a_job_by_name_and_waits_for_it(server):  # noqa: F811
    states = iter(["WAITING", "RUNNING", "SUCCEEDED"])
    server.get("/jobs").respond(json=listed(JOB))
    server.get(f"/jobs/{ID}").mock(
        side_effect=lambda _: httpx.Response(200, json=JOB | {"state": next(states)})
    )
    with Skep(API.removesuffix("/api/v1"), "t") as client:
        assert client.find("train").id == ID
        assert client.wait(ID).state == "SUCCEEDED"


@pytest.mark.parametrize(
    "line", ["ls -n -5", "ls -n 0", "archive list -n -1", "logs train --tail 0"]
)
def test_a_number_that_means_nothing_is_wrong_use(server, line):  # noqa: F811
    assert skep(*line.split()).exit_code == exits.USAGE


def test_jobs_are_stopped_past_one_that_cannot_be(server):  # noqa: F811
    server.get("/jobs", params={"name": "gone"}).respond(json=listed())
    server.get("/jobs").respond(json=listed(JOB))
    server.post(f"/jobs/{ID}/stop").respond(json=JOB | {"state": "STOPPING"})
    done = skep("stop", "gone", "train")
    assert (done.exit_code, done.stdout) == (exits.NOT_FOUND, "train is STOPPING\n")
    assert "no job named gone" in done.stderr


def test_a_dataset_is_made_of_the_outputs_of_a_job_by_its_name(server):  # noqa: F811
    server.get("/jobs").respond(json=listed(JOB))
    made = {"id": ID, "name": "faces", "version": "1", "created_at": NOW}
    route = server.post("/datasets").respond(201, json=made)
    done = skep("datasets", "add", "faces", "--storage", "team", "--job", "train")
    assert (done.exit_code, done.stdout) == (0, "Made faces@1.\n")
    assert json.loads(route.calls[0].request.content)["job"] == ID


def test_a_sweep_that_is_cut_off_says_which_jobs_it_has_submitted(server):  # noqa: F811
    results = [{"name": f"train-{n}", "id": ID, "code": "", "message": ""} for n in range(100)]
    batch = {"results": results, "accepted": 100, "refused": 0}
    refused = {"code": "throttled", "message": "Later.", "details": {}}
    answers = [
        httpx.Response(201, json=batch),
        httpx.Response(429, json=refused, headers={"Retry-After": "3600"}),
    ]
    server.post("/jobs/batch").mock(side_effect=answers)
    seeds = ",".join(str(n) for n in range(150))
    done = skep("sweep", "-", "--set", f"seed={seeds}", text=FILE)
    assert isinstance(done.exception, SkepError)
    assert "train-99" in done.stdout
    assert "Submitted 100 of 150 jobs." in done.stderr


def owned(owner: str, number: int, name: str = "train") -> dict[str, Any]:
    return JOB | {"id": f"{ID[:-4]}{number:04}", "owner": owner, "name": name}


class Jobs:
    """A list of jobs with its filters, page by page; an old one knows no `name`."""

    def __init__(self, rows: list[dict[str, Any]], *, old: bool = False) -> None:
        self.rows, self.old = rows, old
        self.asked: list[dict[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        asked = dict(request.url.params)
        self.asked.append(asked)
        fits = [
            row
            for row in self.rows
            if asked["search"] in row["name"]
            and (self.old or asked["name"] == row["name"])
            and asked.get("owner", row["owner"]) == row["owner"]
        ]
        first, most = int(asked.get("cursor", 0)), int(asked["limit"])
        more = f"{API}/jobs?cursor={first + most}" if len(fits) > first + most else None
        return httpx.Response(200, json=listed(*fits[first : first + most]) | {"next": more})


@pytest.mark.parametrize("old", [False, True], ids=["", "old server"])
def test_a_name_is_found_among_many_that_contain_it(server, old):  # noqa: F811
    others = [owned("bob", number, f"train-{number}") for number in range(100)]
    jobs = Jobs([*others, owned("bob", 1000), owned("alice", 1001)], old=old)
    server.get("/jobs").mock(side_effect=jobs)
    server.get("/me").respond(json=ME)
    with Skep(API.removesuffix("/api/v1"), "t") as client:
        assert client.find("train").owner == "alice"
        assert client.find("bob/train").owner == "bob"
        with pytest.raises(SkepError, match="no job named rain"):
            client.find("rain")
        if not old:
            assert len(jobs.asked) == 4  # one each, and one more for the caller's own

    async def found() -> str:
        async with AsyncSkep(API.removesuffix("/api/v1"), "t") as client:
            return (await client.find("train")).owner

    assert asyncio.run(found()) == "alice"


def test_a_name_that_very_many_people_use_is_looked_at_for_a_bounded_number(server):  # noqa: F811
    jobs = Jobs([owned(f"user{number}", number) for number in range(500)])
    server.get("/jobs").mock(side_effect=jobs)
    server.get("/me").respond(json=ME)
    with (
        Skep(API.removesuffix("/api/v1"), "t") as client,
        pytest.raises(SkepError, match=r"user19/train, …") as refused,
    ):
        client.find("train")
    assert refused.value.code == "ambiguous"
    assert len(jobs.asked) == 2


def test_the_client_ships_its_types():
    from importlib.resources import files

    assert (files("skep_client") / "py.typed").is_file()
