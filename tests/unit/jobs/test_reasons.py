"""Every reason for waiting has the details that the schema of the REST API gives for its code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, member, node, owns

from skep_platform.jobs.lifecycle import dependencies, messages
from skep_platform.jobs.lifecycle.decisions import Retry
from skep_platform.jobs.reasons import FORECASTS, WAIT_REASONS
from skep_scheduler.model import Code, Gang, Options

GANGS = st.lists(
    st.fixed_dictionaries(
        {
            "vc": st.sampled_from(["a", "b", "nobody"]),
            "tasks": st.sampled_from([1, 2, 3, 20]),
            "gpus": st.sampled_from([0, 1, 4, 8]),
            "priority": st.sampled_from([-1, 10, 100]),
            "duration_s": st.sampled_from([None, 300.0]),
            "pin": st.sampled_from([None, None, None, "nowhere"]),
            "not_before": st.sampled_from([0.0, 0.0, 500.0]),
            "avoid": st.sampled_from([(), (("n0", 600.0),)]),
        }
    ),
    min_size=1,
    max_size=12,
)
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check(reason: dict[str, Any]) -> None:
    known = type(WAIT_REASONS[reason["code"]])(data=reason)
    assert known.is_valid(), (reason, known.errors)


def check_all(cluster: Cluster) -> set[str]:
    """Check the reasons of one tick; return their codes."""
    reasons = cluster.tick().reasons.values()
    for reason in reasons:
        check(messages.reason(str(reason.code), reason.message, **reason.details))
    return {str(reason.code) for reason in reasons}


def test_finding_h9_every_code_of_the_scheduler_has_a_schema():
    assert {str(code) for code in Code} <= WAIT_REASONS.keys() & FORECASTS.keys()


@QUICK
@given(GANGS)
def test_finding_h9_reasons_of_the_scheduler_have_the_details_of_their_schema(
    jobs: list[dict[str, Any]],
):
    cluster = Cluster([node("n0"), node("n1")], owns(a=8, b=8), Options(min_run_s=60.0))
    for number, job in enumerate(jobs):
        cluster.submit(gang(f"g{number}", **job))
        check_all(cluster)
        cluster.advance(cluster.now + 20.0)


def busy(*first: Gang, **more: Any) -> Cluster:
    cluster = Cluster([node("n0"), node("n1")], owns(a=16, b=0), **more)
    if first:
        cluster.run(*first)
    return cluster


FULL = gang("full", tasks=2, gpus=8)
SITUATIONS = {
    Code.VC_BUSY: (busy(FULL), gang("g", gpus=8)),
    Code.CLUSTER_BUSY: (busy(FULL), gang("g", gpus=8, priority=-1)),
    Code.VICTIMS_TOO_YOUNG: (busy(FULL), gang("g", gpus=8, priority=100)),
    Code.NEVER_FITS_VC: (busy(), gang("g", tasks=3, gpus=8)),
    Code.NEVER_FITS_CLUSTER: (busy(), gang("g", tasks=13, gpus=8, priority=-1)),
    Code.NEVER_FITS_NODE: (busy(), gang("g", members=[member(1, 1, cpu_millis=10**6)])),
    Code.BACKOFF: (busy(), gang("g", not_before=100.0)),
    Code.UNKNOWN_VC: (busy(), gang("g", vc="none")),
    Code.UNKNOWN_PINNED_CELL: (busy(), gang("g", pin="none")),
    Code.CPU_BUSY: (
        busy(gang("cpu", members=[member(2, 0, cpu_millis=60_000)])),
        gang("g", members=[member(1, 1, cpu_millis=10_000)]),
    ),
}


@pytest.mark.parametrize("code", SITUATIONS)
def test_a_reason_has_the_details_of_its_code(code: Code):
    cluster, waiting = SITUATIONS[code]
    cluster.submit(replace(waiting, submitted_at=cluster.now))
    assert code in check_all(cluster)


def test_a_gang_that_preempts_says_who_leaves():
    cluster = busy(FULL, options=Options(min_run_s=0.0))
    cluster.submit(gang("g", gpus=8, priority=100))
    cluster.tick()
    assert Code.PREEMPTING in check_all(cluster)


def test_finding_h9_reasons_of_the_platform_have_the_details_of_their_schema():
    cause = messages.reason("task_failed", "It failed.")
    evicted = messages.evicted("Node n0 is being drained.")
    for reason in (
        messages.retried(cause, Retry.COUNTED, 1, 3, 10.0, node="n0"),
        evicted,
        messages.requeued(evicted, 2),
        dependencies.waits_for([("up", "afterok")]),
    ):
        check(reason)
