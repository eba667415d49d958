"""Run an agent from its configuration: in the command line, in tests, by the hundred."""

from __future__ import annotations

import structlog

from skep_agent import metrics
from skep_agent.accelerators.base import GpuProbe
from skep_agent.accelerators.late import LateProbe
from skep_agent.accelerators.rdma import rdma_devices
from skep_agent.accelerators.registry import detect
from skep_agent.accelerators.simulated import SimulatedGpus
from skep_agent.config import AgentConfig, interface_of, own_address
from skep_agent.join import is_open_to_others
from skep_agent.registry_policy import RegistryPolicy
from skep_agent.runtimes.base import Runtime
from skep_agent.shell.agent import Agent
from skep_agent.shell.clock import Clock
from skep_agent.shell.lease_guard import EngineToKill, LeaseGuard, NoGuard, WatchdogGuard
from skep_agent.statedir import Identity, StateDir

log = structlog.get_logger(__name__)


async def run_agent(
    config: AgentConfig,
    *,
    runtime: Runtime | None = None,
    probe: GpuProbe | None = None,
    clock: Clock | None = None,
    engine: EngineToKill | None = None,
) -> None:
    """Run until cancelled; containers then keep running. `engine` is where the watchdog finds the
    containers of a `runtime` that is given. Raises StateError when the state directory has no
    credential or another agent uses it, FatalClose when the server turned the node away."""
    state = StateDir(config.state)
    state.lock()
    try:
        identity = state.load()
        if is_open_to_others(identity.server):
            log.warning("no_tls", server=identity.server)
        if probe is None:
            probe = make_probe(config, identity, state)
        runtime = runtime or make_runtime(config, identity, probe)
        agent = Agent(
            config,
            identity,
            state,
            runtime,
            probe,
            clock or Clock(),
            WatchdogGuard(state.path, engine) if engine else make_guard(runtime, state),
        )
        with metrics.served(config.metrics, identity.name, probe, lambda: agent.connected):
            await agent.run()
    finally:
        state.unlock()


def make_runtime(config: AgentConfig, identity: Identity, probe: GpuProbe) -> Runtime:
    if config.runtime == "mock":
        from skep_agent.runtimes.mock import MockRuntime

        return MockRuntime()
    from skep_agent.isolation.create import NodeFacts
    from skep_agent.isolation.mounts import StoragePolicy
    from skep_agent.network.firewall import Firewall
    from skep_agent.runtimes.docker import DockerRuntime

    address = config.address or own_address(identity.server)
    node = NodeFacts(
        cluster=identity.cluster,
        name=identity.name,
        address=address,
        simulated_gpus=config.simulated_gpus is not None,
        gpu_devices=probe.container_devices,
        interface=interface_of(address),
        rdma_devices=rdma_devices(),
    )
    firewall = Firewall(identity.cluster, identity.server) if config.fence == "required" else None
    return DockerRuntime(
        node,
        state=config.state,
        fence=firewall,
        registries=RegistryPolicy.parsed(config.registries),
        watermarks=config.image_cache,
        storages=StoragePolicy.parsed(
            config.storage_roots, config.nfs_servers, config.state, config.s3_endpoints
        ),
    )


def make_guard(runtime: Runtime, state: StateDir) -> LeaseGuard:
    """Containers of an engine outlive the agent, so a process of its own watches them."""
    if runtime.name != "docker":
        return NoGuard()
    from skep_agent.runtimes.docker import DockerRuntime

    assert isinstance(runtime, DockerRuntime)
    host = runtime.engine_host
    engine = EngineToKill(host.url, host.certificates, runtime.labels)
    return WatchdogGuard(state.path, engine)


def make_probe(config: AgentConfig, identity: Identity, state: StateDir) -> GpuProbe:
    """Return a probe of the GPUs that are here, unless simulated ones are asked for."""
    if config.simulated_gpus is None:
        return LateProbe(detect)
    return SimulatedGpus(
        config.simulated_gpus,
        config.gpu_model,
        config.gpu_memory_mb,
        seed=identity.name,
        faults=state.gpu_faults,
    )
