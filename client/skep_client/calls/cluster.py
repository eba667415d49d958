"""Requests about nodes, cells, and simulations of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from skep_client import models
from skep_client.calls.request import Call, given
from skep_client.model import Page

UPLOAD_S = 300.0
LONG_S = 60.0  # the server itself ends such a request after 20 s
YAML = {"Content-Type": "text/yaml"}


def nodes(**params: Any) -> Call[Page[models.Node]]:
    """Iterate over the nodes of the cluster by name."""
    return Call("GET", "nodes", Page[models.Node], params=given(params))


def cordon(name: str, *, reason: str = "") -> Call[models.Node]:
    """Place no more tasks on a node; those that run go on. `reason` is shown with the node."""
    return Call("POST", f"nodes/{name}/cordon", models.Node, json=_reason(reason))


def uncordon(name: str) -> Call[models.Node]:
    """Place tasks on a node again."""
    return Call("POST", f"nodes/{name}/uncordon", models.Node)


def remove_node(name: str) -> Call[None]:
    """Remove a node that is gone from the cluster."""
    return Call("DELETE", f"nodes/{name}", None)


def create_join_token(node: str = "") -> Call[models.JoinToken]:
    """Make a token with which a node joins; for `node` alone, if given."""
    body = {"node": node} if node else {}
    return Call("POST", "nodes/join-tokens", models.JoinToken, json=body, repeatable=False)


def join_tokens(**params: Any) -> Call[Page[models.JoinTokenRow]]:
    """Iterate over the join tokens."""
    answer = Page[models.JoinTokenRow]
    return Call("GET", "nodes/join-tokens", answer, params=given(params))


def revoke_join_token(token_id: str) -> Call[None]:
    """Revoke a join token."""
    return Call("DELETE", f"nodes/join-tokens/{token_id}", None)


def declare_lost(name: str) -> Call[models.Node]:
    """Declare a node lost at once, so that its jobs start elsewhere."""
    return Call("POST", f"nodes/{name}/declare-lost", models.Node)


def check_node(name: str, *, rounds: int = 1) -> Call[models.NodeCheck]:
    """Cordon a node, have it check itself, and use it again after so many rounds that it passed in
    a row."""
    body = {"rounds": rounds}
    return Call("POST", f"nodes/{name}/checks", models.NodeCheck, json=body, repeatable=False)


def node_checks(name: str, **params: Any) -> Call[Page[models.NodeCheck]]:
    """Iterate over the rounds of checks of a node, newest first."""
    return Call("GET", f"nodes/{name}/checks", Page[models.NodeCheck], params=given(params))


def maintenance_windows(**params: Any) -> Call[Page[models.Maintenance]]:
    """Iterate over the windows of maintenance that are planned or on; `node`: of one node."""
    answer = Page[models.Maintenance]
    return Call("GET", "maintenance-windows", answer, params=given(params))


def plan_maintenance(
    nodes: Sequence[str], starts_at: datetime, ends_at: datetime, *, reason: str = ""
) -> Call[list[models.Maintenance]]:
    """Plan a window in which nodes are not used."""
    when = {"starts_at": starts_at.isoformat(), "ends_at": ends_at.isoformat()}
    body = {"nodes": list(nodes), **when, "reason": reason}
    answer = list[models.Maintenance]
    return Call("POST", "maintenance-windows", answer, json=body, repeatable=False)


def cancel_maintenance(window_id: str) -> Call[None]:
    """Cancel a window of maintenance; one that is on ends."""
    return Call("DELETE", f"maintenance-windows/{window_id}", None)


def cluster() -> Call[models.Cluster]:
    """Return the totals of the cluster: nodes, GPUs and jobs by state."""
    return Call("GET", "cluster", models.Cluster)


def cells() -> Call[models.Cells]:
    """Return the chains of cells with their levels, and the pinned cells."""
    return Call("GET", "cells", models.Cells)


def physical_cells(chain: str, under: str = "", depth: int = 1) -> Call[Page[models.PhysicalCell]]:
    """Return the physical cells of a chain below the cell `under`, `depth` levels deep."""
    params = given({"chain": chain, "under": under, "depth": depth})
    return Call("GET", "cells/physical", Page[models.PhysicalCell], params=params)


def assignment() -> Call[models.Assignment]:
    """Return which cells belong to which virtual cluster."""
    return Call("GET", "cells/assignment", models.Assignment)


def check_assignment(wanted: models.Assignment) -> Call[models.CheckedAssignment]:
    """Return what an assignment of cells would change, and what is wrong with it."""
    body = wanted.model_dump(mode="json")
    return Call("POST", "cells/assignment/check", models.CheckedAssignment, json=body)


def set_assignment(wanted: models.Assignment) -> Call[models.CheckedAssignment]:
    """Assign cells to virtual clusters. Refused with `revision_stale` when the assignment changed
    since it was read; so is the second of two equal requests, and it is not repeated."""
    body = wanted.model_dump(mode="json")
    answer = models.CheckedAssignment
    return Call("PUT", "cells/assignment", answer, json=body, repeatable=False)


def export_hived() -> Call[str]:
    """Return the cells as a configuration of HiveD, in YAML."""
    return Call("GET", "cells/hived", str, headers={"Accept": "text/yaml, application/json"})


def check_hived(text: str, *, assign: bool = False) -> Call[models.CheckedAssignment]:
    """Return what importing a configuration of HiveD would change."""
    return _layout("POST", "cells/hived/check", text, assign=assign)


def import_hived(text: str, *, assign: bool = False) -> Call[models.CheckedAssignment]:
    """Take a configuration of HiveD for the cells; `assign` also takes what it gives to virtual
    clusters."""
    return _layout("PUT", "cells/hived", text, assign=assign)


def delete_hived() -> Call[None]:
    """Forget the imported configuration: cells are what the nodes report."""
    return Call("DELETE", "cells/hived", None)


def cells_of(vc: str, **params: Any) -> Call[models.VcCells]:
    """Return the cells of a virtual cluster and who uses them."""
    return Call("GET", f"virtual-clusters/{vc}/cells", models.VcCells, params=given(params))


def queue(vc: str, **params: Any) -> Call[models.VcQueue]:
    """Return the waiting jobs of a virtual cluster with their reasons and expected starts."""
    return Call("GET", f"virtual-clusters/{vc}/queue", models.VcQueue, params=given(params))


def history(vc: str, **params: Any) -> Call[models.VcHistory]:
    """Return how many GPUs of a virtual cluster were used over time."""
    return Call("GET", f"virtual-clusters/{vc}/history", models.VcHistory, params=given(params))


def node_forecast(node: str, action: str = "drain") -> Call[models.NodeForecast]:
    """Return which jobs an action on a node (`drain`, `cordon` or `remove`) would move, and
    where they would go."""
    params: Mapping[str, Any] = {"action": action}
    return Call("GET", f"nodes/{node}/forecast", models.NodeForecast, params=params)


def drain(node: str, *, reason: str = "") -> Call[models.Node]:
    """Place no more tasks on a node, and move its jobs elsewhere. `reason` is shown with the
    node."""
    return Call("POST", f"nodes/{node}/drain", models.Node, json=_reason(reason))


def _reason(reason: str) -> dict[str, str] | None:
    return {"reason": reason} if reason else None


def undrain(node: str) -> Call[models.Node]:
    """End the drain of a node."""
    return Call("POST", f"nodes/{node}/undrain", models.Node)


def _layout(method: str, path: str, text: str, *, assign: bool) -> Call[models.CheckedAssignment]:
    params = {"assign": "1"} if assign else {}
    return Call(
        method,
        path,
        models.CheckedAssignment,
        params=params,
        content=text.encode(),
        headers=YAML,
    )


def export_trace(params: Mapping[str, Any]) -> Call[None]:
    """Download the finished jobs that you may see as a trace. `params`: since, until,
    virtual_cluster."""
    return Call("GET", "simulations/trace", None, params=given(params))


def export_node_events(params: Mapping[str, Any]) -> Call[None]:
    """Download what happened to nodes, for the simulator. `params`: since, until."""
    return Call("GET", "simulations/node-events", None, params=given(params))


def simulated_cluster(*, nodes: bool = False) -> Call[models.SimulatedCluster]:
    """Return the nodes of the cluster, and what virtual clusters own of them. `nodes`: with the
    name of each node."""
    params = {"nodes": "true"} if nodes else {}
    return Call("GET", "simulations/cluster", models.SimulatedCluster, params=params)


def simulations(**params: Any) -> Call[Page[models.SimulationSummary]]:
    """Iterate over the simulations that you may see, newest first."""
    return Call("GET", "simulations", Page[models.SimulationSummary], params=given(params))


def simulation(simulation_id: str) -> Call[models.Simulation]:
    """Return a simulation with its results."""
    return Call("GET", f"simulations/{simulation_id}", models.Simulation)


def create_simulation(policies: list[str], **fields: Any) -> Call[models.Simulation]:
    """Simulate policies on the server, in the background. `fields`: virtual_cluster, source, since,
    until, jobs, load, seed, policy_of, placement, changes, restart_s, node_events."""
    body = {"policies": policies, **fields}
    return Call("POST", "simulations", models.Simulation, json=body, repeatable=False)


def stop_simulation(simulation_id: str) -> Call[models.Simulation]:
    """Stop a simulation."""
    return Call("POST", f"simulations/{simulation_id}/stop", models.Simulation)
