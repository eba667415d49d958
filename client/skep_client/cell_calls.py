"""Requests about cells, queues and drains, as `calls` has the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skep_client import cells, models
from skep_client.calls import Call, given

YAML = {"Content-Type": "text/yaml"}


def overview() -> Call[cells.Cells]:
    return Call("GET", "cells", cells.Cells)


def physical(chain: str, under: str = "", depth: int = 1) -> Call[models.Page[cells.PhysicalCell]]:
    params = given({"chain": chain, "under": under, "depth": depth})
    return Call("GET", "cells/physical", models.Page[cells.PhysicalCell], params=params)


def assignment() -> Call[cells.Assignment]:
    return Call("GET", "cells/assignment", cells.Assignment)


def check_assignment(wanted: cells.Assignment) -> Call[cells.CheckedAssignment]:
    body = wanted.model_dump(mode="json")
    return Call("POST", "cells/assignment/check", cells.CheckedAssignment, json=body)


def set_assignment(wanted: cells.Assignment) -> Call[cells.CheckedAssignment]:
    """Refused with `revision_stale` where somebody changed it since it was read: so is the second
    of two equal requests, and it is not repeated by itself."""
    body = wanted.model_dump(mode="json")
    answer = cells.CheckedAssignment
    return Call("PUT", "cells/assignment", answer, json=body, repeatable=False)


def export_hived() -> Call[str]:
    return Call("GET", "cells/hived", str, headers={"Accept": "text/yaml, application/json"})


def check_hived(text: str, *, assign: bool = False) -> Call[cells.CheckedAssignment]:
    return _layout("POST", "cells/hived/check", text, assign=assign)


def import_hived(text: str, *, assign: bool = False) -> Call[cells.CheckedAssignment]:
    """`assign` also takes what the file gives to virtual clusters."""
    return _layout("PUT", "cells/hived", text, assign=assign)


def delete_hived() -> Call[None]:
    return Call("DELETE", "cells/hived", None)


def of_vc(vc: str, **params: Any) -> Call[cells.VcCells]:
    return Call("GET", f"virtual-clusters/{vc}/cells", cells.VcCells, params=given(params))


def queue(vc: str, **params: Any) -> Call[cells.VcQueue]:
    return Call("GET", f"virtual-clusters/{vc}/queue", cells.VcQueue, params=given(params))


def history(vc: str, **params: Any) -> Call[cells.VcHistory]:
    return Call("GET", f"virtual-clusters/{vc}/history", cells.VcHistory, params=given(params))


def node_forecast(node: str, action: str = "drain") -> Call[cells.NodeForecast]:
    params: Mapping[str, Any] = {"action": action}
    return Call("GET", f"nodes/{node}/forecast", cells.NodeForecast, params=params)


def drain(node: str) -> Call[models.Node]:
    return Call("POST", f"nodes/{node}/drain", models.Node)


def undrain(node: str) -> Call[models.Node]:
    return Call("POST", f"nodes/{node}/undrain", models.Node)


def _layout(method: str, path: str, text: str, *, assign: bool) -> Call[cells.CheckedAssignment]:
    params = {"assign": "1"} if assign else {}
    return Call(
        method,
        path,
        cells.CheckedAssignment,
        params=params,
        content=text.encode(),
        headers=YAML,
    )
