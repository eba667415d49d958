"""What virtual clusters own, between REST, the scheduler's facts and the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from skep_platform.cluster import layouts
from skep_platform.tenancy import claims
from skep_scheduler import facts
from skep_scheduler.inventory import gpu_model

Body = Mapping[str, Any]  # as `AssignmentSerializer` checked it


@dataclass(frozen=True, slots=True)
class Assignment:
    virtual_clusters: tuple[facts.VirtualCluster, ...]
    pins: tuple[facts.Pin, ...]


@dataclass(frozen=True, slots=True)
class Error:
    """What is wrong with a request of an admin, and where in it: shown as it is."""

    code: str
    message: str
    path: str
    details: Mapping[str, Any]


def stored() -> Assignment:
    return Assignment(*claims.read())


def show() -> dict[str, Any]:
    """As REST tells it, with the revision that it is of."""
    revision = layouts.current().revision  # first: it may be older than what follows, not newer
    now = stored()
    return {
        "revision": revision,
        "virtual_clusters": {vc.name: _owned(vc, now.pins) for vc in now.virtual_clusters},
        "pins": [
            {
                "name": pin.name,
                "cell_type": pin.cell_type,
                "node": pin.node,
                "device": pin.device,
            }
            for pin in now.pins
        ],
    }


def parse(body: Body) -> Assignment:
    """What the body says; `mistakes` tells whether that makes sense."""
    owners = {pin: name for name, vc in body["virtual_clusters"].items() for pin in vc["pins"]}
    vcs = [
        facts.VirtualCluster(name, tuple(_claims(vc)))
        for name, vc in sorted(body["virtual_clusters"].items())
    ]
    pins = [
        facts.Pin(
            name=pin["name"],
            cell_type=pin["cell_type"],
            node=pin["node"],
            device=pin["device"],
            vc=owners.get(pin["name"], ""),
        )
        for pin in body["pins"]
    ]
    return Assignment(tuple(vcs), tuple(pins))


def mistakes(body: Body) -> list[Error]:
    """What is wrong in itself, whatever the cluster has."""
    return [
        *_unknown_vcs(body),
        *_twice(body),
        *_unknown_pins(body),
    ]


def _owned(vc: facts.VirtualCluster, pins: tuple[facts.Pin, ...]) -> dict[str, Any]:
    return {
        "cells": [
            {"chain": claim.chain, "cell_type": claim.cell_type, "number": claim.number}
            for claim in vc.claims
            if claim.chain
        ],
        "quotas": {claim.cell_type: claim.number for claim in vc.claims if not claim.chain},
        "pins": [pin.name for pin in pins if pin.vc == vc.name],
    }


def _claims(vc: Mapping[str, Any]) -> Iterator[facts.Claim]:
    """In the order of the body: paths of errors count them."""
    for cell in vc["cells"]:
        yield facts.Claim(cell["chain"], cell["cell_type"], cell["number"])
    for model, gpus in vc["quotas"].items():
        yield facts.Claim("", gpu_model(model), gpus)


def _unknown_vcs(body: Body) -> Iterator[Error]:
    known = {vc.name for vc in stored().virtual_clusters}
    for name in body["virtual_clusters"]:
        if name not in known:
            message = f"There is no virtual cluster named {name}."
            yield Error("unknown_virtual_cluster", message, f"virtual_clusters.{name}", {})


def _twice(body: Body) -> Iterator[Error]:
    for name, vc in body["virtual_clusters"].items():
        keys = Counter((cell["chain"], cell["cell_type"]) for cell in vc["cells"])
        for (chain, cell_type), times in keys.items():
            if times > 1:
                message = f"{cell_type} of {chain} is listed {times} times; add the numbers."
                yield Error("listed_twice", message, f"virtual_clusters.{name}.cells", {})
        for model, times in Counter(map(gpu_model, vc["quotas"])).items():
            if times > 1:
                message = f"{model} is listed by {times} of its names; add the numbers."
                yield Error("listed_twice", message, f"virtual_clusters.{name}.quotas", {})
    names = Counter(pin["name"] for pin in body["pins"])
    for name, times in names.items():
        if times > 1:
            message = f"{times} pinned cells are named {name}."
            yield Error("listed_twice", message, "pins", {"pin": name})


def _unknown_pins(body: Body) -> Iterator[Error]:
    known = {pin["name"] for pin in body["pins"]}
    owners: dict[str, str] = {}
    for name, vc in body["virtual_clusters"].items():
        for index, pin in enumerate(vc["pins"]):
            path = f"virtual_clusters.{name}.pins[{index}]"
            if pin not in known:
                yield Error("unknown_pin", f"No pinned cell is named {pin}.", path, {"pin": pin})
            elif pin in owners:
                message = f"Pinned cell {pin} belongs to {owners[pin]} already."
                yield Error("pin_given_twice", message, path, {"pin": pin})
            owners.setdefault(pin, name)
