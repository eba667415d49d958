"""Every labelled log ending is recognised for what it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
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


def test_what_torchrun_writes_of_two_ranks_is_reported_by_the_rank_that_failed() -> None:
    found = [(ending.label, ending.verdict()) for ending in recorded()]
    assert sum(label == verdict.category for label, verdict in found) >= 22
    assert sum(verdict.rank == 1 for _, verdict in found) >= 20


@pytest.mark.parametrize("ending", benign(), ids=lambda e: e.text[:40])
def test_a_warning_is_no_failure(ending: Ending) -> None:
    assert ending.verdict(BEFORE).category == "No signature"


@pytest.mark.parametrize("read", [held_out, unseen])
def test_endings_that_no_rule_was_written_for_are_reported_for_what_they_are(read: Any) -> None:
    """Below Philly's own share of failures without a signature."""
    wanted = [ending.label for ending in read()]
    found = [ending.verdict(BEFORE).category for ending in read()]
    right = sum(a == b for a, b in zip(wanted, found, strict=True))
    unclassified = found.count("No signature") - wanted.count("No signature")
    assert right / len(found) > 0.94
    assert unclassified / len(found) < 0.042


@pytest.mark.parametrize("text", FINE)
def test_what_reports_no_failure_has_no_signature(text: str) -> None:
    assert Ending("", 1, text).verdict(BEFORE).category == "No signature"


@pytest.mark.parametrize("ending", ENDINGS[:40], ids=lambda e: e.label)
def test_the_evidence_is_a_line_of_the_log(ending: Ending) -> None:
    evidence = ending.verdict(BEFORE).evidence
    line = (BEFORE + ending.text).split("\n")[evidence.line - 1]
    assert evidence.text in line.strip()


def test_finding_j12_endings_of_the_frameworks_are_reported_with_reason_and_class() -> None:
    found = [(ending, ending.verdict(BEFORE)) for ending in sources()]
    assert len(found) > 700
    assert sum(e.label == v.category for e, v in found) / len(found) > 0.95
    assert sum(e.retry == v.retry for e, v in found) / len(found) > 0.92


FOLLOWERS = [
    "",
    "[rank1]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1\n",
    "Exception ignored in atexit callback: <function close at 0x7f>\nBrokenPipeError: [Errno 32]\n",
    "wandb: Synced 4 W&B file(s), 0 media file(s), 0 artifact file(s) and 0 other file(s)\n",
]


@pytest.mark.parametrize("prefix", ["", "[rank0]: ", "(Core pid=7) ERROR 11-22 [core.py:9] "])
@pytest.mark.parametrize("after", FOLLOWERS, ids=range(len(FOLLOWERS)))
@given(name=st.from_regex(r"[A-Z][a-z]{3,9}([A-Z][a-z]{2,9}){0,2}", fullmatch=True))
def test_finding_j12_the_line_below_the_frames_names_the_exception_whatever_it_is_called(
    prefix: str, after: str, name: str
) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/workspace/train.py", line 12, in <module>',
        "    model.fit(data)",
        '  File "/opt/venv/lib/python3.12/site-packages/sklearn/base.py", line 90, in fit',
        "    self._check(data)",
        f"sklearn.base.{name}: y must have one label per row",
    ]
    other = "[rank7]: step 4 loss 2.1\n"  # of another process, within the traceback
    text = "".join(f"{prefix}{line}\n" for line in lines[:4]) + other
    text += "".join(f"{prefix}{line}\n" for line in lines[4:]) + after
    verdict = Ending("", 1, text).verdict(BEFORE)
    assert name in verdict.evidence.text


def test_finding_j12_a_message_may_begin_below_its_exception() -> None:
    text = (
        '  File "a.py", line 3, in save\n    save(x)\nRuntimeError:\n  Tensors must not overlap.\n'
    )
    verdict = Ending("", 1, text).verdict(BEFORE)
    assert (verdict.category, verdict.retry) == ("Semantic error", "permanent")


def test_finding_j12_a_warning_of_python_is_no_cause() -> None:
    text = "/opt/a.py:13: UserWarning: cannot open shared object file libx.so, it is not used\n"
    assert Ending("", 1, text).verdict(BEFORE).category == "No signature"


@pytest.mark.parametrize(("number", "name"), [(2, "ContainerCudaOOMKilled"), (46, "GpuBusy"),
    (214, "ContainerCudaUncorrectableECCError"), (700, "IllegalMemoryAccess"),
    (710, "DeviceAssert"), (803, "ContainerCudaVersionMismatch")])  # fmt: skip
def test_finding_j12_cuda_errors_are_known_by_their_number(number: int, name: str) -> None:
    text = f"Cuda driver error {number} in call at file 'geryon/nvd_device.h' in line 333.\n"
    assert Ending("", 1, text).verdict().name == name


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
