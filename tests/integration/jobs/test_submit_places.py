"""Submitting jobs that say where they shall lie: what is stored, and what no VC can give."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.jobs_world import attempts_of, job_file, tick
from tests.support.platform_factories import make_node, make_vc

from skep_platform.cluster.models import Node
from skep_platform.core import ports
from skep_platform.core.errors import SkepError
from skep_platform.core.ports import CellSize
from skep_platform.jobs import services
from skep_platform.jobs.containers.desired import desired_attempts
from skep_platform.jobs.models import Job
from skep_platform.jobs.submission import admission, quota_check
from skep_platform.tenancy.limits import set_limit
from skep_platform.tenancy.models import PinnedCell, VcCell

pytestmark = pytest.mark.django_db

SIZES = {
    "A100": CellSize(("A100",), 1, "A100"),
    "A100-NODE8": CellSize(("A100",), 8, "A100"),
    "A100-NODE8-x4": CellSize(("A100",), 4, "A100"),
    "V100-NODE4": CellSize(("V100",), 4, "V100"),
}


@pytest.fixture(autouse=True)
def _sizes_known(monkeypatch):
    monkeypatch.setattr(ports.cell_sizes, "_bound", lambda: SIZES)
    monkeypatch.setattr(quota_check, "_remembered", (-quota_check.FRESH_S, {}))
    monkeypatch.setattr(admission, "_remembered", (-admission.LIMITS_FRESH_S, None))


@pytest.fixture
def vc(alice):
    made = make_vc("vision", quotas={"A100": 4}, members=[alice])
    VcCell.objects.create(vc=made, chain="A100-NODE8", cell_type="A100-NODE8", number=2)
    make_node("gpu-1", gpus=8)
    make_node("gpu-2", gpus=4, model="V100")
    return made


def submit(
    user, vc, demand: Any = None, *, gang: bool = True, skep: Any = None, hived: Any = None, **role
) -> Job:
    """One role "worker"."""
    made = job_file(vc, **role)
    made["extras"]["hivedScheduler"] |= {"taskRoles": {"worker": demand or {}}, **(hived or {})}
    made["extras"] |= {"gangAllocation": gang, "skep": skep or {}}
    return services.submit(user, json.dumps(made))


def refusal(*args, **fields) -> SkepError:
    with pytest.raises(SkepError) as raised:
        submit(*args, **fields)
    return raised.value


def test_all_that_was_asked_is_stored(alice, vc):
    job = submit(
        *(alice, vc, {"cellType": "A100-NODE8-x4", "affinityGroupName": "g", "within": "A100"}),
        gpus=4,
        gang=False,
        skep={
            "priority": 42,
            "duration": "1h",
            "checkpoint": {"grace": 60},
            "stopGrace": 20,
            "preemptible": False,
            "withinOneCell": "A100-NODE8",
        },
        hived={"lazyPreemptionEnable": True},
    )
    job = Job.objects.get(pk=job.pk)
    assert (job.priority, job.duration_s, job.incremental) == (42, 3600, True)
    assert (job.lazy_preemption, job.preemptible, job.within) == (True, False, "A100-NODE8")
    assert (job.checkpoint_signal, job.checkpoint_grace_s, job.stop_grace_s) == ("SIGUSR1", 60, 20)
    role = job.roles.get()
    assert (role.cell_type, role.cells, role.within) == ("A100-NODE8-x4", 1, "A100")
    assert (role.affinity_group, role.gpu_model) == ("g", "")


def test_a_plain_job_has_the_defaults(alice, vc):
    job = Job.objects.get(pk=submit(alice, vc).pk)
    assert (job.duration_s, job.incremental, job.lazy_preemption) == (None, False, False)
    assert (job.preemptible, job.within, job.pinned_cell) == (True, "", "")
    assert (job.checkpoint_signal, job.checkpoint_grace_s, job.stop_grace_s) == ("", 0, 30)


def test_claims_by_count_and_by_cells_count_together(alice, vc):
    assert submit(alice, vc, instances=20)
    error = refusal(alice, vc, instances=21)
    assert error.code == "exceeds_quota"
    assert error.details == {"needs": 21, "owns": {"A100": 20}, "virtual_cluster": "vision"}


def test_a_model_that_the_virtual_cluster_does_not_own(alice, vc):
    error = refusal(alice, vc, {"skuType": "V100"})
    assert error.code == "exceeds_quota"
    assert error.details["gpu_model"] == "V100"
    assert error.details["needs"] == 1
    assert submit(alice, vc, {"skuType": "V100"}, priority="oppo")


def test_a_cell_type_counts_as_its_gpus(alice, vc):
    assert refusal(alice, vc, {"cellType": "V100-NODE4"}, gpus=4).details["gpu_model"] == "V100"
    assert submit(alice, vc, {"cellType": "A100-NODE8"}, gpus=8, instances=2)
    assert (
        refusal(alice, vc, {"cellType": "A100-NODE8"}, gpus=8, instances=3).details["needs"] == 24
    )


def test_of_an_incremental_job_each_task_counts_alone(alice, vc):
    assert submit(alice, vc, gang=False, instances=100)


def test_unknown_names_are_reported_with_the_nearest(alice, vc):
    error = refusal(alice, vc, {"skuType": "A10"})
    assert (error.code, error.details["name"]) == ("unknown_sku_type", "A10")
    assert "Did you mean A100" in error.message
    assert "V100" in error.details["known"]
    error = refusal(alice, vc, {"within": "A100-NODE"})
    assert error.code == "unknown_cell_type"
    assert "A100-NODE8" in error.message
    assert refusal(alice, vc, skep={"withinOneCell": "RACK"}).code == "unknown_cell_type"
    assert refusal(alice, vc, {"skuType": "A10"}, priority="oppo").code == "unknown_sku_type"


def test_cells_have_as_many_gpus_as_they_have(alice, vc):
    error = refusal(alice, vc, {"cellType": "A100-NODE8"}, gpus=4)
    assert error.code == "gpus_of_cells"
    assert error.details == {"needs": 4, "cells": 1, "gpus_of_cell": 8}


def test_a_pinned_cell_is_the_virtual_clusters_own(alice, vc):
    PinnedCell.objects.create(name="P", cell_type="A100-NODE8-x4", node_name="gpu-1", vc=vc)
    PinnedCell.objects.create(name="Q", cell_type="A100-NODE8", node_name="gpu-1")
    assert submit(alice, vc, {"pinnedCellId": "P"}, instances=4).pinned_cell == "P"
    error = refusal(alice, vc, {"pinnedCellId": "Q"})
    assert (error.code, error.details["known"]) == ("unknown_pinned_cell", ["P"])
    error = refusal(alice, vc, {"pinnedCellId": "P"}, instances=5)
    assert (error.code, error.details["has"]) == ("exceeds_pinned_cell", 4)


def test_the_time_to_stop_is_bounded_by_the_virtual_cluster(alice, vc):
    vc.max_stop_grace_s = 20
    vc.save()
    error = refusal(alice, vc, skep={"stopGrace": 15, "checkpoint": {"grace": 10}})
    assert error.code == "exceeds_stop_grace"
    assert (error.details["needs"], error.details["allowed"]) == (25, 20)
    assert submit(alice, vc, skep={"stopGrace": 20}).stop_grace_s == 20
    assert submit(alice, vc).stop_grace_s == 20


@pytest.mark.parametrize("tasks", [1, 2])
def test_finding_s5_the_host_network_is_off_until_an_admin_allows_it(alice, vc, tasks):
    asked = {"skep": {"network": "host"}, "instances": tasks}
    error = refusal(alice, vc, **asked)
    assert error.code == "host_network_not_allowed"
    assert error.details["virtual_cluster"] == vc.name
    set_limit(None, vc, "host_network", 1)
    assert submit(alice, vc, **asked).network_mode == "host"
    set_limit(None, vc, "host_network", 0)
    assert refusal(alice, vc, **asked).code == "host_network_not_allowed"
    assert submit(alice, vc, skep={"network": "bridge"}).network_mode == "bridge"


def test_nothing_is_refused_by_unknown_sizes(alice, vc, monkeypatch):
    monkeypatch.setattr(ports.cell_sizes, "_bound", dict)
    assert submit(alice, vc, {"cellType": "A100-NODE8"}, gpus=8, instances=9)


def test_check_reports_all_with_their_places(alice, vc):
    made = job_file(vc)
    made["extras"]["hivedScheduler"] |= {
        "taskRoles": {"worker": {"skuType": "A10", "within": "nowhere"}},
        "gangReleaseEnable": True,
    }
    result = services.check(alice, json.dumps(made))
    assert [p.path for p in result.errors] == [
        "extras.hivedScheduler.taskRoles.worker.skuType",
        "extras.hivedScheduler.taskRoles.worker.within",
    ]
    assert [note.code for note in result.notes] == ["not_used"]


def test_the_scheduler_reports_how_large_cells_are(alice, vc):
    from skep_platform.scheduling.shared_state import cell_sizes

    known = cell_sizes()
    assert known["A100"] == CellSize(("A100",), 1, "A100")
    assert known["A100-NODE8"] == CellSize(("A100",), 8, "A100")


def test_a_quota_of_a_leaf_type_is_one_of_its_model(alice, monkeypatch):
    monkeypatch.setattr(
        ports.cell_sizes, "_bound", lambda: {"K80": CellSize(("Tesla-K80",), 1, "K80")}
    )
    vc = make_vc("old", quotas={"K80": 2}, members=[alice])
    make_node("gpu-9", gpus=4, model="Tesla K80")
    for name in ("K80", "Tesla K80"):
        assert submit(alice, vc, {"skuType": name}, instances=2)
        assert refusal(alice, vc, {"skuType": name}, instances=3).details["owns"] == {"K80": 2}


def test_finding_j4_scratch_is_asked_for_within_the_limit_of_the_virtual_cluster(alice, vc):
    set_limit(None, vc, "scratch_mb", 500)
    error = refusal(alice, vc, skep={"scratch": 501})
    assert (error.code, error.details["allowed"]) == ("exceeds_scratch", 500)
    assert submit(alice, vc, skep={"scratch": 500})


INFINIBAND = {"extraContainerOptions": {"infiniband": True}}


def test_finding_j6_infiniband_is_refused_where_it_is_not_granted_or_not_there(alice, vc):
    assert refusal(alice, vc, **INFINIBAND).code == "rdma_not_allowed"
    set_limit(None, vc, "rdma", 1)
    assert refusal(alice, vc, **INFINIBAND).code == "rdma_not_available"
    Node.objects.filter(name="gpu-1").update(rdma=True)
    assert submit(alice, vc, **INFINIBAND).rdma
    assert not submit(alice, vc).rdma


def test_finding_j6_it_is_placed_where_the_devices_are(alice, vc):
    set_limit(None, vc, "rdma", 1)
    # The fuller node is taken first: the one without devices.
    make_node("gpu-3", gpus=8)
    Node.objects.filter(name="gpu-3").update(rdma=True)
    jobs = [submit(alice, vc, gpus=1, **INFINIBAND) for _ in range(3)]
    for _ in range(3):
        Job.objects.filter(state="WAITING").update(not_before=None)
        tick()
    nodes = {a.node.name for job in jobs for a in attempts_of(job)}
    assert nodes == {"gpu-3"}
    specs = desired_attempts(attempts_of(jobs[0])[0].node_id)
    assert all(spec.rdma for spec in specs)


@pytest.mark.parametrize("ulimits", [{"memlock": "unlimited"}, {"stack": 2**60}])
def test_finding_j6_limits_are_bounded_by_the_memory_of_a_task(alice, vc, ulimits):
    assert refusal(alice, vc, skep={"ulimits": ulimits}).code == "ulimit_too_large"
    assert submit(alice, vc, skep={"ulimits": {"memlock": 2**20, "nofile": 65536}})
