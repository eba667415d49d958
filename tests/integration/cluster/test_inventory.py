"""What agents report about GPUs, true or not."""

from __future__ import annotations

import pytest
from django.db.models.functions import Now
from tests.support.platform_factories import (
    make_gpus,
    make_inventory,
    make_job,
    make_node,
    make_user,
    make_vc,
    place,
    release,
)

from skep_agent.protocol import Gpu
from skep_platform.cluster import services
from skep_platform.cluster.inventory import InvalidInventory
from skep_platform.cluster.models import Device, Node
from skep_platform.core.errors import Conflict
from skep_platform.core.models import Event

pytestmark = pytest.mark.django_db


def report(node: Node, gpus: list[Gpu], **fields: object) -> None:
    services.update_inventory(node.pk, node.session_epoch, make_inventory(gpus, **fields))


def health(node: Node) -> dict[str, str]:
    return dict(node.devices.values_list("uuid", "health"))


def gpu_events(node: Node) -> list[str]:
    events = Event.objects.filter(subject_id=str(node.pk), kind__startswith="gpu.").order_by("id")
    return list(events.values_list("kind", flat=True))


def sick(gpu: Gpu, problem: str = "XID 79: fallen off the bus") -> Gpu:
    return gpu.model_copy(update={"healthy": False, "problem": problem})


def test_gpu_that_fails_and_recovers_is_reported_each_time():
    gpus = make_gpus("x", 2)
    node = make_node(gpus=gpus)
    report(node, [gpus[0], sick(gpus[1])])
    report(node, [gpus[0], sick(gpus[1])])
    assert health(node) == {"GPU-x-0": "HEALTHY", "GPU-x-1": "BAD"}
    assert Device.objects.get(pk="GPU-x-1").problem == "XID 79: fallen off the bus"
    report(node, gpus)
    assert health(node)["GPU-x-1"] == "HEALTHY"
    assert gpu_events(node) == ["gpu.bad", "gpu.recovered"]


def test_gpu_that_vanishes_is_absent_and_may_come_back():
    gpus = make_gpus("x", 2)
    node = make_node(gpus=gpus)
    report(node, gpus[:1])
    report(node, gpus[:1])
    assert health(node)["GPU-x-1"] == "ABSENT"
    report(node, gpus)
    assert health(node)["GPU-x-1"] == "HEALTHY"
    assert gpu_events(node) == ["gpu.absent", "gpu.recovered"]


def test_gpu_moves_to_another_node_once_its_own_gave_it_up():
    gpus = make_gpus("x", 1)
    old, new = make_node(gpus=gpus), make_node(gpus=0)
    report(old, [])
    report(new, gpus)
    device = Device.objects.get()
    assert (device.node_id, device.health) == (new.pk, "HEALTHY")


def test_gpu_of_a_lost_node_may_move():
    gpus = make_gpus("x", 1)
    old, new = make_node(gpus=gpus), make_node(gpus=0)
    Node.objects.filter(pk=old.pk).update(lease_expires_at=Now())
    services.expire_leases()
    report(new, gpus)
    assert Device.objects.get().node_id == new.pk


def test_25_gpu_of_a_living_node_cannot_be_claimed_by_another():
    gpus = make_gpus("x", 1)
    owner, rogue = make_node(gpus=gpus), make_node(gpus=0)
    report(rogue, [sick(gpus[0])])
    device = Device.objects.get()
    assert (device.node_id, device.health) == (owner.pk, "HEALTHY")
    assert gpu_events(rogue) == ["gpu.claimed_elsewhere"]


def test_leased_gpu_stays_where_it_is_whatever_its_node_says():
    gpus = make_gpus("x", 1)
    old, new = make_node(gpus=gpus), make_node(gpus=0)
    attempt = place(make_job(make_vc(), make_user()), list(old.devices.all()))
    report(old, [])
    report(new, gpus)
    assert Device.objects.get().node_id == old.pk
    release(attempt)
    report(new, gpus)
    assert Device.objects.get().node_id == new.pk


def test_10_gpu_keeps_its_lease_by_uuid_when_its_node_counts_anew():
    """After a reboot or a reload of the driver, index 0 may be another GPU."""
    gpus = make_gpus("x", 2)
    node = make_node(gpus=gpus)
    held = Device.objects.get(uuid="GPU-x-0")
    attempt = place(make_job(make_vc(), make_user()), [held])
    report(node, [gpu.model_copy(update={"index": 1 - gpu.index}) for gpu in gpus])
    held.refresh_from_db()
    assert (held.index, held.pk) == (1, attempt.leases.get().device_id)
    assert attempt.gpu_uuids == ["GPU-x-0"]


def test_inventory_of_an_older_session_is_fenced():
    node = make_node(gpus=1)
    with pytest.raises(Conflict) as caught:
        services.update_inventory(node.pk, node.session_epoch - 1, make_inventory())
    assert caught.value.code == "session_fenced"
    assert health(node) == {f"GPU-{node.name}-0": "HEALTHY"}


def test_inventory_takes_a_fixed_number_of_queries(django_assert_max_num_queries):
    node = make_node(gpus=0)
    gpus = make_gpus("x", 64)
    with django_assert_max_num_queries(10):
        report(node, gpus)
    with django_assert_max_num_queries(10):
        report(node, [sick(gpu) for gpu in gpus])
    assert Device.objects.filter(health="BAD").count() == 64


def test_node_fields_follow_the_inventory():
    node = make_node(gpus=1)
    topology = {f"GPU-{node.name}-0": {"GPU-unknown": "NV4"}, "GPU-unknown": {}}
    report(node, make_gpus(node.name, 1), cpus=1.5, labels={"a": "b"}, topology=topology)
    node.refresh_from_db()
    assert (node.cpu_millis, node.labels) == (1500, {"a": "b"})
    assert node.topology == {f"GPU-{node.name}-0": {}}


ONE = make_gpus("x", 1)[0]


@pytest.mark.parametrize(
    ("gpus", "fields"),
    [
        ([ONE, ONE], {}),
        ([ONE.model_copy(update={"uuid": "x" * 81})], {}),
        ([ONE.model_copy(update={"uuid": ""})], {}),
        ([ONE.model_copy(update={"uuid": "a b"})], {}),
        ([ONE.model_copy(update={"model": "a\x00b"})], {}),
        ([ONE.model_copy(update={"memory_mb": -1})], {}),
        ([ONE.model_copy(update={"memory_mb": 2**40})], {}),
        ([ONE.model_copy(update={"index": -1})], {}),
        ([ONE.model_copy(update={"numa_node": 2**20})], {}),
        (make_gpus("x", 257), {}),
        ([], {"address": "a b; rm -rf /"}),
        ([], {"address": "x" * 300}),
        ([], {"cpus": -1.0}),
        ([], {"cpus": float("nan")}),
        ([], {"cpus": float("inf")}),
        ([], {"memory_mb": 2**40}),
        ([], {"port_range": (1, 2)}),
        ([], {"port_range": (3000, 2000)}),
        ([], {"port_range": (3000, 70000)}),
        ([], {"labels": {str(i): "" for i in range(65)}}),
        ([], {"labels": {"a": "\x00"}}),
    ],
)
def test_26_impossible_inventory_is_refused_and_changes_nothing(gpus, fields):
    node = make_node("alpha", gpus=1)
    before = (Node.objects.values().get(), list(Device.objects.values()))
    with pytest.raises(InvalidInventory):
        report(node, gpus, **fields)
    assert (Node.objects.values().get(), list(Device.objects.values())) == before


def test_26_overlong_text_is_cut():
    gpu = ONE.model_copy(update={"model": "m" * 500, "healthy": False, "problem": "p" * 500})
    node = make_node(gpus=[gpu], driver_version="d" * 500, labels={"k" * 99: "v" * 999})
    device = node.devices.get()
    assert (len(device.model), len(device.problem)) == (100, 200)
    assert len(node.driver_version) == 64
