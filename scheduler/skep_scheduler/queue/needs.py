"""What a gang needs, in numbers and in words."""

from __future__ import annotations

from typing import Any

from skep_scheduler.cells.shape import Shape
from skep_scheduler.facts import Gang, Member
from skep_scheduler.queue import words
from skep_scheduler.world import World


def needs_of(world: World, gang: Gang) -> dict[str, Any]:
    """`gpus` of all tasks; `gpu_model` "" if any one would do; `shape` as in "2 nodes of 8 A100
    within one rack"; `whole_nodes`: each task fills one."""
    models = sorted({member.gpu_model for member in gang.members if member.gpu_model})
    return {
        "gpus": sum(gpus_of(world, member) * member.count for member in gang.members),
        "gpu_model": models[0] if len(models) == 1 else "",
        "tasks": gang.tasks,
        "shape": shape_of(world, gang),
        "whole_nodes": all(_fills_node(world, member) for member in gang.members),
    }


def gpus_of(world: World, member: Member) -> int:
    """Of one task."""
    if member.cell_type is None:
        return member.gpus
    for shape in world.cells.config.shapes.values():
        level = shape.level_of.get(member.cell_type)
        if level is not None:
            return (member.cells or 1) * shape.at(level).leaves
    return 0


def shape_of(world: World, gang: Gang) -> str:
    parts = [_member(world, member) for member in gang.members]
    within = f" within one {_kind(gang.within)}" if gang.within is not None else ""
    pin = f" in pinned cell {gang.pin}" if gang.pin is not None else ""
    return words.listing(parts) + within + pin


def _member(world: World, member: Member) -> str:
    within = f" within one {_kind(member.within)}" if member.within is not None else ""
    if member.cell_type is not None:
        cells = words.count((member.cells or 1) * member.count, "cell")
        return f"{cells} of {member.cell_type}{within}"
    model = member.gpu_model or ("GPU" if member.gpus == 1 else "GPUs")
    if not member.gpus:
        size = f"{words.cpus(member.cpu_millis)} and {words.memory(member.memory_mb)}"
        return f"{words.count(member.count, 'task')} of {size}"
    if _fills_node(world, member):
        return f"{words.count(member.count, 'node')} of {member.gpus} {model}{within}"
    if member.count == 1:
        return f"{member.gpus} {model}{within}"
    return f"{member.count} tasks of {member.gpus} {model}{within}"


def _fills_node(world: World, member: Member) -> bool:
    shapes = [shape for shape in world.cells.config.shapes.values() if _fits(world, member, shape)]
    return bool(shapes) and all(
        shape.at(shape.node_level).leaves == member.gpus for shape in shapes
    )


def _fits(world: World, member: Member, shape: Shape) -> bool:
    types = [shape.leaf_type] if member.gpu_model is None else world.leaf_types(member.gpu_model)
    return shape.leaf_type in types


def _kind(cell_type: str) -> str:
    """The last word of a type's name is what it is: "A100-NODE8-RACK" is a rack."""
    return cell_type.rsplit("-", 1)[-1].lower()
