"""What a gang needs, in numbers and in words."""

from __future__ import annotations

from typing import Any

from skep_scheduler.cells.shape import Shape
from skep_scheduler.explain import words
from skep_scheduler.inventory import describe
from skep_scheduler.model import Gang, Member
from skep_scheduler.placement.user_limits import gpus_of
from skep_scheduler.state import ClusterState


def needs_of(state: ClusterState, gang: Gang) -> dict[str, Any]:
    """`gpus` of all tasks; `gpu_model` "" if any one would do; `shape` as in "2 nodes of 8 A100
    within one rack"; `whole_nodes`: each task fills one."""
    models = sorted({member.gpu_model for member in gang.members if member.gpu_model})
    return {
        "gpus": sum(gpus_of(state, member) * member.count for member in gang.members),
        "gpu_model": models[0] if len(models) == 1 else "",
        "tasks": gang.tasks,
        "shape": shape_of(state, gang),
        "whole_nodes": all(_fills_node(state, member) for member in gang.members),
    }


def shape_of(state: ClusterState, gang: Gang) -> str:
    """Return what a gang asks for in words."""
    parts = [_member(state, member) for member in gang.members]
    pin = f" in pinned cell {gang.pin}" if gang.pin is not None else ""
    return words.listing(parts) + _within(state, gang.within) + pin


def _within(state: ClusterState, cell_type: str | None) -> str:
    if cell_type is None:
        return ""
    kind = describe(state.cells.config, cell_type)["kind"]
    return f" within one {cell_type if kind in ('unknown', 'group', 'part') else kind}"


def _member(state: ClusterState, member: Member) -> str:
    within = _within(state, member.within)
    if member.cell_type is not None:
        number = (member.cells or 1) * member.count
        return f"{number} x {describe(state.cells.config, member.cell_type)['words']}{within}"
    model = member.gpu_model or ("GPU" if member.gpus == 1 else "GPUs")
    if not member.gpus:
        size = f"{words.cpus(member.cpu_millis)} and {words.memory(member.memory_mb)}"
        return f"{words.count(member.count, 'task')} of {size}"
    if _fills_node(state, member):
        return f"{words.count(member.count, 'node')} of {member.gpus} {model}{within}"
    if member.count == 1:
        return f"{member.gpus} {model}{within}"
    return f"{member.count} tasks of {member.gpus} {model}{within}"


def _fills_node(state: ClusterState, member: Member) -> bool:
    shapes = [shape for shape in state.cells.config.shapes.values() if _fits(state, member, shape)]
    return bool(shapes) and all(
        shape.at(shape.node_level).leaves == member.gpus for shape in shapes
    )


def _fits(state: ClusterState, member: Member, shape: Shape) -> bool:
    types = [shape.leaf_type] if member.gpu_model is None else state.leaf_types(member.gpu_model)
    return shape.leaf_type in types
