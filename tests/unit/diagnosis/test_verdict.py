"""Facts before text, the cause before its echo, and the rank that failed first."""

from __future__ import annotations

from typing import Any

import pytest

from skep_diagnosis.facts import read_facts
from skep_diagnosis.verdict import Log, Verdict, diagnose

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
TIMEOUT = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)\n"
NO = "Storage a: its store refuses this (AccessDenied): an admin should give the storage keys."
LOST = "Storage a: its store reports InternalError."


def judge(text: str = "", **facts: Any) -> Verdict:
    return diagnose([Log("a.log", [text.encode()], read_facts(facts))])


@pytest.mark.parametrize(
    ("facts", "code", "retry", "blame"),
    [
        ({"exit_code": 0}, 0, "unknown", "none"),
        ({"exit_code": 137}, 137, "transient", "platform"),
        ({"signal": 11}, 139, "unknown", "unknown"),
        ({"exit_code": 137, "oom_killed": True}, -1200, "permanent", "job"),
        (
            {"exit_code": 137, "memory_peak_mb": 1020, "memory_limit_mb": 1024},
            -1200,
            "permanent",
            "job",
        ),
        ({"exit_code": 1, "xid": [79]}, 319, "transient", "node"),
        ({"exit_code": 1, "xid": [13]}, 255, "unknown", "unknown"),
        ({"exit_code": 1, "ecc_double": True}, 128, "unknown", "node"),
        ({"disk_full": True}, 304, "unknown", "unknown"),
        ({"error_code": "image_not_found"}, 254, "permanent", "job"),
        ({"error_code": "storage_not_synced", "error_message": LOST}, 334, "unknown", "platform"),
        ({"error_code": "storage_not_synced", "error_message": NO}, 335, "permanent", "platform"),
        ({"error_code": "storage_unavailable", "error_message": NO}, 335, "permanent", "platform"),
        ({"error_code": "storage_unavailable"}, 305, "transient", "platform"),
        ({"preempted": True, "exit_code": 143}, 323, "transient", "none"),
        ({"node_lost": True}, -1001, "transient", "node"),
        ({"error_code": "node_lost"}, -1001, "transient", "node"),
        ({"reason": "Evicted"}, -1000, "transient", "node"),
        ({"reason": "OutOfcpu"}, -1002, "transient", "platform"),
        ({"reason": "OOMKilled", "container": "init"}, -1300, "transient", "platform"),
        (
            {
                "reason": "ContainerCannotRun",
                "exit_code": 128,
                "message": "nvidia-container-cli: device error: unknown device id: 3",
            },
            -1205,
            "transient",
            "node",
        ),
        (
            {"exit_code": 10, "platform_log": "SSH barrier reaches max retry count"},
            249,
            "permanent",
            "job",
        ),
        ({"exit_code": -4321}, -4321, "unknown", "unknown"),
        ({"exit_code": 77}, 255, "unknown", "unknown"),
    ],
)
def test_facts_alone(facts: dict[str, Any], code: int, retry: str, blame: str) -> None:
    verdict = judge(**facts)
    assert (verdict.code, verdict.retry, verdict.blame) == (code, retry, blame)


def test_a_fact_wins_over_the_log() -> None:
    assert judge(OOM, exit_code=137, oom_killed=True).category == "CPU out of memory"


KILLS = [
    "Killed\n",
    "start.sh: line 21:   412 Killed                  python train.py\n",
    "exitcode  : -9 (pid: 71)\n",
    "Root Cause: Signal 9 (SIGKILL) received by PID 71\n",
    "RuntimeError: DataLoader worker (pid 71) is killed by signal: Killed.\n",
    "RuntimeError: DataLoader worker (pid(s) 71, 72) exited unexpectedly\n",
    "concurrent.futures.process.BrokenProcessPool: process pool was terminated abruptly\n",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=88.0\n",
    "kernel: Out of memory: Killed process 71 (python)\n",
    "The task exceeded its memory limit\n",
    "OOMKilled\n",
    "SIGKILL(-9)\n",
]


@pytest.mark.parametrize("exit_code", [137, 1, 9])
@pytest.mark.parametrize("text", KILLS)
def test_finding_j2_what_a_log_says_of_a_kill_is_weighed_by_the_memory(
    text: str, exit_code: int
) -> None:
    def judged(**facts: Any) -> Verdict:
        return judge(f"step 3\n{text}", exit_code=exit_code, memory_limit_mb=8192, **facts)

    for peak in (None, 10, 4096, 7700):
        verdict = judged(memory_peak_mb=peak)
        assert (verdict.retry, verdict.category) == ("transient", "Killed by signal"), peak
    for facts in ({"memory_peak_mb": 7800}, {"memory_peak_mb": 10, "oom_killed": True}):
        verdict = judged(**facts)
        assert (verdict.code, verdict.retry, verdict.evidence.source) == (
            -1200,
            "permanent",
            "facts",
        )


def test_finding_j2_a_kill_after_a_refused_allocation_is_no_lack_of_memory() -> None:
    facts = {"memory_limit_mb": 8192, "memory_peak_mb": 10}
    assert judge("MemoryError\n", exit_code=137, **facts).retry == "transient"
    assert judge("MemoryError\n", exit_code=1, **facts).retry == "permanent"


def test_a_full_disk_explains_what_the_log_does_not() -> None:
    assert judge(OOM, exit_code=1, disk_full=True).code == 226
    assert judge(TIMEOUT, exit_code=1, disk_full=True).code == 304
    assert judge("step 1\n", exit_code=1, disk_full=True).code == 304


def test_an_error_that_was_overcome_does_not_explain_a_kill() -> None:
    long = OOM + "step\n" * 1000
    assert judge(long, exit_code=137).code == 137
    assert judge(OOM, exit_code=137).code == 226


def test_the_cause_wins_over_what_follows_it() -> None:
    assert judge(OOM + TIMEOUT).code == 226
    assert judge(TIMEOUT + OOM).code == 226
    assert judge("FileNotFoundError: a\n" + "step\n" * 500 + TIMEOUT).code == 300


def test_the_rank_with_the_cause_is_chosen_though_others_came_first_in_the_list() -> None:
    logs = [
        Log("rank0.log", [("2026-11-21 10:10:00 " + TIMEOUT).encode()]),
        Log("rank1.log", [("2026-11-21 10:00:00 " + OOM).encode()]),
        Log("rank2.log", [b"2026-11-21 10:00:05 KeyError: 'x'\nKeyError: 'x'\n"]),
    ]
    verdict = diagnose(logs)
    assert (verdict.code, verdict.rank, verdict.evidence.log) == (226, 1, "rank1.log")


def test_of_two_causes_the_task_that_ended_first_reports() -> None:
    def log(rank: int, text: str, at: float) -> Log:
        facts = read_facts({"exit_code": 1, "rank": rank, "finished_at": at})
        return Log("x", [text.encode()], facts)

    assert diagnose([log(0, OOM, 50.0), log(1, "MemoryError\n", 40.0)]).rank == 1
    assert diagnose([log(0, OOM, 500.0), log(1, TIMEOUT, 40.0)]).rank == 1
    assert diagnose([log(0, OOM, 50.0), log(1, TIMEOUT, 40.0)]).rank == 0


def test_a_task_killed_with_its_gang_is_not_the_one_that_failed() -> None:
    killed = Log("rank0.log", [b""], read_facts({"exit_code": 0}))
    assert diagnose([killed, Log("rank1.log", [OOM.encode()])]).rank == 1


def test_nothing_given_has_no_signature() -> None:
    assert diagnose([]).code == 255


@pytest.mark.parametrize("later_s", [-2.0, -0.1, 0.1, 2.0])
@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: [gloo/transport/tcp/pair.cc:525] Read error: Connection reset by peer",
        "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "BrokenPipeError: [Errno 32] Broken pipe",
    ],
)
def test_a_rank_that_was_killed_is_named_and_not_one_that_lost_it(line, later_s):
    """Also where the clock of the other node says that it ended before."""
    lost = read_facts({"exit_code": 1, "rank": 0, "finished_at": 100.0 + later_s})
    killed = read_facts({"exit_code": 137, "exit_signal": 9, "rank": 2, "finished_at": 100.0})
    logs = [Log("a", [f"{line}\n".encode()], lost), Log("b", [b"step 3\n"], killed)]
    logs.sort(key=lambda log: log.facts.finished_at or 0.0)
    verdict = diagnose(logs)
    assert (verdict.rank, verdict.name) == (2, "ContainerSigKillReceived")


@pytest.mark.parametrize(
    ("line", "exit_code", "title"),
    [
        (
            "torch.distributed.DistBackendError: NCCL error in: x.cpp:1",
            1,
            "The ranks lost each other",
        ),
        ("run.sh: line 3: trian: command not found", 127, "Command not found"),
    ],
)
def test_finding_u18_titles_name_what_happened(line: str, exit_code: int, title: str) -> None:
    """The categories of a study ("MPI runtime failure", "Semantic error") are for statistics."""
    assert judge(f"{line}\n", exit_code=exit_code).title == title


def test_finding_u30_memory_is_reported_in_digits() -> None:
    """It was "peak 2e+06 MB of 2e+06 MB"."""
    verdict = judge(exit_code=137, memory_peak_mb=1_999_000, memory_limit_mb=2_000_000)
    assert verdict.evidence.text == "peak 1,999,000 MB of 2,000,000 MB"


UNREACHABLE = [
    "ssh: connect to host {} port 22: No route to host",
    "OSError: [Errno 113] No route to host: ('{}', 5432)",
    "rsync: failed to connect to {} (10.2.0.7): Network is unreachable (101)",
    "ConnectionRefusedError: [Errno 111] Connection refused: {}:6379",
    "grpc: failed to connect to all addresses; last error: UNKNOWN: ipv4:{}:50051: refused",
    "read tcp {}:443: Connection reset by peer",
    "telnet: connect to address {}: Connection timed out",
]


@pytest.mark.parametrize("line", UNREACHABLE)
@pytest.mark.parametrize("address", ["10.2.0.7", "store.lab"])
def test_finding_j12_a_job_of_one_task_has_no_ranks_to_lose(line: str, address: str) -> None:
    text = f"step 1\n{line.format(address)}\n"
    alone = judge(text, exit_code=1, tasks=1)
    assert (alone.name, alone.retry) == ("DownloadFailed", "transient")
    assert address in alone.evidence.text
    assert judge(text, exit_code=1, tasks=2).code in (300, 301)


@pytest.mark.parametrize(
    "line",
    [
        "[rank3]: torch.distributed.DistBackendError: NCCL error: Connection reset by peer",
        "[c10d] The client socket failed: Connection refused",
        "gloo/transport/tcp/pair.cc:525 Connection closed by peer [127.0.0.1]:9000",
        "ConnectionRefusedError: [Errno 111] Connection refused: 127.0.0.1:29500",
    ],
)
def test_finding_j12_the_processes_of_one_task_can_lose_each_other(line: str) -> None:
    assert judge(line + "\n", exit_code=1, tasks=1).name == "CollectiveFailed"


def test_finding_j12_a_licence_server_out_of_reach_is_no_missing_licence() -> None:
    text = "License checkout failed.\nUnable to connect to the license server.\n"
    assert judge(text, exit_code=1).retry == "transient"
    assert judge("ERROR: the license has expired on 2026-10-31\n", exit_code=1).retry == "permanent"


@pytest.mark.parametrize(
    ("status", "category"),
    [
        ("INVALID_ARGUMENT", "Semantic error"),
        ("NOT_FOUND", "Incorrect inputs"),
        ("UNAUTHENTICATED", "Permission error"),
        ("UNAVAILABLE", "Incorrect inputs"),
    ],
)
def test_finding_j12_canonical_status_codes_are_read_where_nothing_says_more(
    status: str, category: str
) -> None:
    assert judge(f"  (0) {status}: something of the call\n", exit_code=1).category == category
