"""Writing what virtual clusters own: counts of GPUs, cells, pinned cells. All at once or nothing.

Data comes as the scheduler's facts do; whether it fits is not looked at here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django.db import transaction

from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.audit.models import AuditEntry
from skep_platform.core import notifications, ports
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_platform.tenancy import limits
from skep_platform.tenancy.models import PinnedCell, Quota, VcCell, VirtualCluster, choice_of
from skep_scheduler.inventory import gpu_model
from skep_scheduler.model import facts

Claims = tuple[tuple[facts.VirtualCluster, ...], tuple[facts.Pin, ...]]

Owned = dict[str, Any]  # {"quotas": {model: GPUs}, "cells": {"chain type": number}, "pins": [name]}


def lock() -> dict[str, VirtualCluster]:
    """All virtual clusters by name, until the end of the transaction: who changes claims must see
    the changes of others."""
    rows = VirtualCluster.objects.select_for_update(no_key=True).order_by("pk")
    return {vc.name: vc for vc in rows}


@transaction.atomic
def replace(
    user: User | None, vcs: Sequence[facts.VirtualCluster], pins: Sequence[facts.Pin]
) -> None:
    """From now on they own this; virtual clusters that are not listed own nothing, and pins that
    are not listed are gone. All that are listed must exist."""
    known = lock()
    before = read()
    _write_pins(known, pins)
    _write_quotas(known, vcs)
    _write_cells(known, vcs)
    after = read()
    if before == after:
        return
    was, now = _owned(before), _owned(after)
    changed = [name for name in known if was[name] != now[name]]
    events = [_claims_event(user, known[name], was[name], now[name]) for name in changed]
    if before[1] != after[1]:
        events.append(_pins_event(user, before[1], after[1]))
    Event.objects.bulk_create(events)
    AuditEntry.objects.bulk_create(
        audit.entry(
            "cells.assignment.update",
            "vc",
            known[name].pk,
            name,
            before=was[name],
            after=now[name],
            vc=known[name],
        )
        for name in changed
    )
    if before[1] != after[1]:
        audit.record(
            "cells.assignment.update",
            "cells",
            target_name="pins",
            before={pin.name: asdict(pin) for pin in before[1]},
            after={pin.name: asdict(pin) for pin in after[1]},
        )
    ports.claims_changed.call()
    notifications.notify_scheduler()
    notifications.notify_topic("cluster")


def read() -> Claims:
    """Return what they own, how their queues are ordered and what each user may hold, by name, in
    five queries."""
    rows = dict(VirtualCluster.objects.order_by("name").values_list("name", "policy"))
    mine: dict[str, list[facts.Claim]] = {name: [] for name in rows}
    cells = VcCell.objects.order_by("chain", "cell_type")
    for vc, chain, cell_type, number in cells.values_list(
        "vc__name", "chain", "cell_type", "number"
    ):
        mine[vc].append(facts.Claim(chain, cell_type, number))
    quotas = Quota.objects.order_by("gpu_model")
    for vc, model, gpus in quotas.values_list("vc__name", "gpu_model", "gpus"):
        mine[vc].append(facts.Claim("", model, gpus))
    pins = PinnedCell.objects.order_by("name")
    user_limits = limits.user_limits()
    columns = ("name", "cell_type", "node_name", "device_uuid", "vc__name")
    return (
        tuple(
            facts.VirtualCluster(
                name,
                tuple(some),
                choice_of(rows[name]),
                user_limits.get(name, facts.UserLimits()),
            )
            for name, some in mine.items()
        ),
        tuple(
            facts.Pin(name, cell_type, node, device, vc or "")
            for name, cell_type, node, device, vc in pins.values_list(*columns)
        ),
    )


def _owned(claims: Claims) -> dict[str, Owned]:
    vcs, pins = claims
    owned: dict[str, Owned] = {vc.name: {"quotas": {}, "cells": {}, "pins": []} for vc in vcs}
    for vc in vcs:
        for claim in vc.claims:
            if claim.chain:
                owned[vc.name]["cells"][f"{claim.chain} {claim.cell_type}"] = claim.number
            else:
                owned[vc.name]["quotas"][claim.cell_type] = claim.number
    for pin in pins:
        if pin.vc:
            owned[pin.vc]["pins"].append(pin.name)
    return owned


def _write_pins(known: Mapping[str, VirtualCluster], pins: Iterable[facts.Pin]) -> None:
    rows = [
        PinnedCell(
            name=pin.name,
            cell_type=pin.cell_type,
            node_name=pin.node,
            device_uuid=pin.device,
            vc=known[pin.vc] if pin.vc else None,
        )
        for pin in pins
    ]
    PinnedCell.objects.exclude(name__in=[row.name for row in rows]).delete()
    PinnedCell.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=["cell_type", "node_name", "device_uuid", "vc"],
    )


def _write_quotas(known: Mapping[str, VirtualCluster], vcs: Iterable[facts.VirtualCluster]) -> None:
    rows = [
        Quota(vc=known[vc.name], gpu_model=gpu_model(claim.cell_type), gpus=claim.number)
        for vc in vcs
        for claim in vc.claims
        if not claim.chain and claim.number
    ]
    Quota.objects.all().delete()
    Quota.objects.bulk_create(rows)


def _write_cells(known: Mapping[str, VirtualCluster], vcs: Iterable[facts.VirtualCluster]) -> None:
    rows = [
        VcCell(vc=known[vc.name], chain=claim.chain, cell_type=claim.cell_type, number=claim.number)
        for vc in vcs
        for claim in vc.claims
        if claim.chain and claim.number
    ]
    VcCell.objects.all().delete()
    VcCell.objects.bulk_create(rows)


def _claims_event(user: User | None, vc: VirtualCluster, before: Owned, after: Owned) -> Event:
    message = f"{vc.name} owns {_words(after)} now."
    actor = user.get_username() if user else ""
    data = {"before": before, "after": after}
    return event("vc", vc.pk, "claims.changed", message, actor=actor, **data)


def _pins_event(
    user: User | None, before: Sequence[facts.Pin], after: Sequence[facts.Pin]
) -> Event:
    message = f"Pinned cells are {', '.join(pin.name for pin in after) or 'none'} now."
    data = {"before": [asdict(pin) for pin in before], "after": [asdict(pin) for pin in after]}
    actor = user.get_username() if user else ""
    return event("cells", "", "pins.changed", message, actor=actor, **data)


def _words(owned: Owned) -> str:
    parts = [f"{number} x {cell.split(' ')[1]}" for cell, number in owned["cells"].items()]
    parts += [f"{gpus} x {model}" for model, gpus in owned["quotas"].items()]
    parts += [f"pinned cell {pin}" for pin in owned["pins"]]
    return ", ".join(parts) or "nothing"
