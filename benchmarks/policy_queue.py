"""A cluster of two GPU models and a queue that gives each policy its work: jobs of many users, a
third of them elastic, half with a deadline, most of a declared or predicted duration, a third that
run on any GPU model at declared speeds, and some that were preempted before."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from benchmarks.queue_tick import GPUS, NOW, machine, mixed_queue

from skep_scheduler.model import (
    Claim,
    ElasticRange,
    Gang,
    Inventory,
    Node,
    PolicyChoice,
    VirtualCluster,
)

MODELS = ("A100", "V100")
USERS = 40


def two_models(nodes: int, vcs: int, choice: PolicyChoice, owned: float = 1.0) -> Inventory:
    """Return a cluster of which each virtual cluster owns an equal part of both GPU models."""
    each = max(int(nodes * owned) // vcs // len(MODELS), 1) * GPUS
    claims = tuple(Claim("", model, each) for model in MODELS)
    names = [f"vc{number}" for number in range(vcs)]
    return Inventory(
        tuple(_of_model(machine(n), MODELS[n % len(MODELS)]) for n in range(nodes)),
        tuple(VirtualCluster(name, claims, choice) for name in names),
    )


def policy_queue(jobs: int, vcs: int) -> Iterable[Gang]:
    """Return gangs that wait in some virtual clusters."""
    draw = random.Random(17)
    return [_varied(gang, draw, vcs) for gang in mixed_queue(jobs)]


def _varied(gang: Gang, draw: random.Random, vcs: int) -> Gang:
    (member,) = gang.members
    kind = draw.choice((*MODELS, None))
    sizes = None
    if draw.random() < 1 / 3:
        sizes = ElasticRange(1, 4 * member.count, member.count)
    expected = draw.choice((None, *(600.0 * 2**n for n in range(8))))
    due = expected is not None and draw.random() < 0.5
    attained = draw.choice((0.0, 0.0, 0.0, 2_000.0, 5_000.0, 50_000.0)) * gang.gpus
    return replace(
        gang,
        vc=f"vc{draw.randrange(vcs)}",
        members=(replace(member, gpu_model=kind, elastic=sizes),),
        duration_s=expected,
        predicted_s=expected * draw.uniform(0.5, 1.0) if expected and draw.random() < 0.7 else None,
        deadline_at=NOW + (expected or 0.0) * draw.uniform(1.2, 8.0) if due else None,
        owner=f"user{int(USERS * draw.random() ** 2):02}",
        attained_gpu_s=attained,
        speeds=(("A100", draw.choice((1.0, 1.5, 2.0, 3.0))), ("V100", 1.0)) if not kind else (),
        warmup_s=draw.choice((None, 20.0, 60.0)),
    )


def _of_model(node: Node, model: str) -> Node:
    return replace(node, devices=tuple(replace(one, model=model) for one in node.devices))
