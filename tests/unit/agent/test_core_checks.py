"""A spec is checked again on the node, whatever the server believes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.agent_specs import gpu, spec
from tests.support.agent_world import World

GPUS = [gpu("GPU-1"), gpu("GPU-2", healthy=False, problem="XID 79: fallen off the bus")]

REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a GPU that is not here": ({"gpu_uuids": ["GPU-9"]}, "gpu_unavailable", "no GPU GPU-9"),
    "an unhealthy GPU": ({"gpu_uuids": ["GPU-2"]}, "gpu_unavailable", "XID 79"),
    "a GPU listed twice": ({"gpu_uuids": ["GPU-1", "GPU-1"]}, "gpu_unavailable", "twice"),
    "more CPUs than the node has": ({"cpus": 9}, "spec_refused", "this node has 8"),
    "no CPU": ({"cpus": 0}, "spec_refused", "0 CPUs"),
    "CPUs that are no number": ({"cpus": float("nan")}, "spec_refused", "nan CPUs"),
    "more memory than the node has": ({"memory_mb": 2048}, "spec_refused", "1024 MB"),
    "more shared memory than the node has": ({"shm_mb": 2048}, "spec_refused", "1024 MB"),
    "an endless time to save its work": (
        {"checkpoint_grace_s": 1e9},
        *("spec_refused", "grace"),
    ),
    "a checkpoint signal that kills": (
        {"checkpoint_signal": "SIGKILL"},
        *("spec_refused", "SIGKILL"),
    ),
    "an endless grace time": ({"stop_grace_s": 1e9}, "spec_refused", "grace"),
    "a host name with a newline": ({"hostname": "a\nb"}, "spec_refused", "host name"),
    "a port outside of the range": (
        {"network": "host", "ports": {"http": [80]}},
        "spec_refused",
        "port 80 is outside",
    ),
    "a port listed twice": (
        {"network": "host", "ports": {"a": [20001], "b": [20001]}},
        "spec_refused",
        "twice",
    ),
    "an environment that opens the GPU isolation": (
        {"env": {"NVIDIA_VISIBLE_DEVICES": "all"}},
        "spec_refused",
        "NVIDIA_VISIBLE_DEVICES",
    ),
    "more masks than a log can be searched for (finding S3)": (
        {"masks": [f"secret-{n}" for n in range(2001)]},
        *("spec_refused", "2001 masks, at most 2000"),
    ),
    "longer masks than a log can be searched for (finding S3)": (
        {"masks": ["x" * 262144, "y"]},
        *("spec_refused", "262145 bytes, at most 262144"),
    ),
    "an image that no pattern of its virtual cluster allows": (
        {"image_patterns": ["vision/*", "other:1"]},
        *("spec_refused", "no pattern of its virtual cluster allows"),
    ),
    "an image by the tag latest where that is not allowed": (
        {"image": {"reference": "vision/train"}, "latest_images": False},
        *("spec_refused", "by the tag latest"),
    ),
    "malformed patterns, one of which would allow the image": (
        {"image_patterns": ["*", "a b"]},
        *("spec_refused", "malformed"),
    ),
    "a pattern with more asterisks than can be compared in time": (
        {"image_patterns": ["*" * 9]},
        *("spec_refused", "malformed"),
    ),
    "a preloaded library": ({"env": {"LD_PRELOAD": "/x.so"}}, "spec_refused", "LD_PRELOAD"),
}


@pytest.fixture
def world() -> World:
    world = World(GPUS)
    world.welcome()
    return world


@pytest.mark.parametrize("case", REFUSED, ids=list(REFUSED))
def test_what_cannot_run_here_fails_with_a_code_and_a_reason(world: World, case: str) -> None:
    fields, code, words = REFUSED[case]
    world.desire(spec(**fields))
    failed, released = world.facts
    assert (failed.phase, failed.error_code) == ("failed", code)
    assert words in failed.message
    assert released.phase == "released"
    world.settle()
    assert not world.machine.attempts


def test_a_gpu_is_not_given_to_a_second_attempt(world: World) -> None:
    world.desire(spec("a1", gpu_uuids=["GPU-1"]), spec("a2", gpu_uuids=["GPU-1"]))
    failed = next(f for f in world.facts if f.phase == "failed")
    assert (failed.attempt_id, failed.error_code) == ("a2", "gpu_unavailable")
    assert "held by attempt a1" in failed.message


def test_a_host_port_is_not_given_to_a_second_attempt(world: World) -> None:
    fields: dict[str, Any] = {"network": "host", "ports": {"http": [20001]}}
    world.desire(spec("a1", **fields), spec("a2", **fields))
    failed = next(f for f in world.facts if f.phase == "failed")
    assert (failed.attempt_id, failed.error_code) == ("a2", "spec_refused")


def test_ports_inside_a_bridge_are_the_tasks_own(world: World) -> None:
    fields: dict[str, Any] = {"network": "job", "ports": {"http": [80]}}
    world.desire(spec("a1", **fields), spec("a2", **fields))
    assert world.phases("a1") == world.phases("a2") == ["pulling"]


@pytest.mark.parametrize("name", ["", "../../etc", "a b", "x" * 64, "-rf"])
def test_an_attempt_id_that_is_none_is_not_touched(world: World, name: str) -> None:
    world.desire(spec(name))
    assert world.warnings == ["bad_attempt_id"]
    assert not world.machine.attempts
    assert not world.pending
