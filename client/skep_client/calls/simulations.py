"""Requests about the simulator: history, the cluster as it is, and simulations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skep_client import models
from skep_client.calls.request import Call, given
from skep_client.model import Page


def export_trace(params: Mapping[str, Any]) -> Call[None]:
    """Download the finished jobs that you may see as a trace. `params`: since, until,
    virtual_cluster."""
    return Call("GET", "simulations/trace", None, params=given(params))


def simulated_cluster() -> Call[models.SimulatedCluster]:
    """Return the nodes of the cluster, and what virtual clusters own of them."""
    return Call("GET", "simulations/cluster", models.SimulatedCluster)


def simulations(**params: Any) -> Call[Page[models.SimulationSummary]]:
    """Iterate over the simulations that you may see, newest first."""
    return Call("GET", "simulations", Page[models.SimulationSummary], params=given(params))


def simulation(simulation_id: str) -> Call[models.Simulation]:
    """Return a simulation with its results."""
    return Call("GET", f"simulations/{simulation_id}", models.Simulation)


def create_simulation(policies: list[str], **fields: Any) -> Call[models.Simulation]:
    """Simulate policies on the server, in the background. `fields`: virtual_cluster, source, since,
    until, jobs, load, seed, placement, changes, restart_s."""
    body = {"policies": policies, **fields}
    return Call("POST", "simulations", models.Simulation, json=body, repeatable=False)


def stop_simulation(simulation_id: str) -> Call[models.Simulation]:
    """Stop a simulation."""
    return Call("POST", f"simulations/{simulation_id}/stop", models.Simulation)
