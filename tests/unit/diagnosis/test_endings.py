"""Every labelled log ending is told for what it is."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.endings import Ending, benign, endings, held_out, recorded, sources, unseen

from skep_diagnosis.table import table

ENDINGS = endings()
BEFORE = "".join(f"step {i} loss {4 / i:.3f} lr 0.001\n" for i in range(1, 300))
FINE = [
    "epoch 1 done, 0 errors\n",
    "NCCL INFO Bootstrap : Using eth0:10.0.0.4<0>\n",
    "[INFO] saved checkpoint to /out/step_100.ckpt\n",
    "I tensorflow/core/platform/cpu_feature_guard.cc:182] This binary is optimized\n",
    "input shape (8, 3, 224, 224), tensor cores on, expected 12 epochs\n",
    "",
]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda e: e.label)
@pytest.mark.parametrize("before", ["", BEFORE], ids=["alone", "after a long run"])
def test_ending_is_judged_by_its_own_rule(ending: Ending, before: str) -> None:
    verdict = ending.verdict(before)
    assert verdict.rule == ending.label, verdict.evidence.text


def test_every_rule_has_an_ending() -> None:
    assert {rule.id for rule in table().text_rules} == {ending.label for ending in ENDINGS}
    assert len(ENDINGS) >= 150


def test_what_torchrun_writes_of_two_ranks_is_told_by_the_rank_that_failed() -> None:
    told = [(ending.label, ending.verdict()) for ending in recorded()]
    assert sum(label == verdict.category for label, verdict in told) >= 22
    assert sum(verdict.rank == 1 for _, verdict in told) >= 20


@pytest.mark.parametrize("ending", benign(), ids=lambda e: e.text[:40])
def test_a_warning_is_no_failure(ending: Ending) -> None:
    assert ending.verdict(BEFORE).category == "No signature"


@pytest.mark.parametrize("read", [held_out, unseen])
def test_endings_that_no_rule_was_written_for_are_told_for_what_they_are(read: Any) -> None:
    """Below Philly's own share of failures without a signature."""
    wanted = [ending.label for ending in read()]
    told = [ending.verdict(BEFORE).category for ending in read()]
    right = sum(a == b for a, b in zip(wanted, told, strict=True))
    unclassified = told.count("No signature") - wanted.count("No signature")
    assert right / len(told) > 0.94
    assert unclassified / len(told) < 0.042


@pytest.mark.parametrize("text", FINE)
def test_what_tells_of_no_failure_has_no_signature(text: str) -> None:
    assert Ending("", 1, text).verdict(BEFORE).category == "No signature"


@pytest.mark.parametrize("ending", ENDINGS[:40], ids=lambda e: e.label)
def test_the_evidence_is_a_line_of_the_log(ending: Ending) -> None:
    evidence = ending.verdict(BEFORE).evidence
    line = (BEFORE + ending.text).split("\n")[evidence.line - 1]
    assert evidence.text in line.strip()


def test_finding_j12_endings_of_the_frameworks_are_told_with_reason_and_class() -> None:
    told = [(ending, ending.verdict(BEFORE)) for ending in sources()]
    assert len(told) > 200
    assert sum(e.label == v.category for e, v in told) / len(told) > 0.95
    assert sum(e.retry == v.retry for e, v in told) / len(told) > 0.92


RAY = (
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    "Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. "
    "There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due "
    "to high memory usage. (2) ray stop --force is called. (3) The worker is crashed unexpectedly "
    "due to SIGSEGV or other unexpected errors.\n"
)


def test_finding_j12_a_list_of_possible_causes_is_no_cause() -> None:
    verdict = Ending("", 1, RAY).verdict()
    assert verdict.retry == "unknown"
    assert verdict.category not in ("CPU out of memory", "Core dump")


def test_finding_j12_a_gpu_off_the_bus_is_its_nodes_fault() -> None:
    verdict = Ending("", 1, "RuntimeError: CUDA error: GPU is lost\n").verdict()
    assert (verdict.blame, verdict.retry) == ("node", "transient")


def test_finding_j12_a_port_in_use_is_not_a_lost_rank() -> None:
    text = "RuntimeError: The server socket has failed to bind (errno: 98 - Address already in use)"
    verdict = Ending("", 1, text).verdict()
    assert (verdict.name, verdict.retry) == ("ContainerPortConflict", "transient")
