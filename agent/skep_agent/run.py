"""Run an agent from its configuration: in the command line, in tests, by the hundred."""

from __future__ import annotations

from skep_agent.config import AgentConfig, interface_of, own_address
from skep_agent.probes.base import GpuProbe
from skep_agent.probes.rdma import rdma_devices
from skep_agent.probes.simulated import SimulatedGpus
from skep_agent.registry_policy import RegistryPolicy
from skep_agent.runtimes.base import Runtime
from skep_agent.shell.agent import Agent
from skep_agent.shell.clock import Clock
from skep_agent.shell.fence import EngineToKill, Fence, NoFence, WatchdogFence
from skep_agent.statedir import Identity, StateDir


async def run_agent(
    config: AgentConfig,
    *,
    runtime: Runtime | None = None,
    probe: GpuProbe | None = None,
    clock: Clock | None = None,
) -> None:
    """Until cancelled; containers then keep running. Raises StateError when the state directory
    has no credential or another agent uses it, FatalClose when the server turned the node away."""
    state = StateDir(config.state)
    state.lock()
    try:
        identity = state.load()
        runtime = runtime or make_runtime(config, identity)
        agent = Agent(
            config,
            identity,
            state,
            runtime,
            probe or make_probe(config, identity, state),
            clock or Clock(),
            make_fence(runtime, state),
        )
        await agent.run()
    finally:
        state.unlock()


def make_runtime(config: AgentConfig, identity: Identity) -> Runtime:
    if config.runtime == "mock":
        from skep_agent.runtimes.mock import MockRuntime

        return MockRuntime()
    from skep_agent.isolation import Node
    from skep_agent.network.fence import Fence
    from skep_agent.runtimes.docker import DockerRuntime

    address = config.address or own_address(identity.server)
    node = Node(
        cluster=identity.cluster,
        name=identity.name,
        address=address,
        simulated_gpus=config.simulated_gpus is not None,
        interface=interface_of(address),
        rdma_devices=rdma_devices(),
    )
    fence = Fence(identity.cluster, identity.server) if config.fence == "required" else None
    return DockerRuntime(
        node, state=config.state, fence=fence, registries=RegistryPolicy.parsed(config.registries)
    )


def make_fence(runtime: Runtime, state: StateDir) -> Fence:
    """Containers of an engine outlive the agent, so a process of its own watches them."""
    if runtime.name != "docker":
        return NoFence()
    from skep_agent.runtimes.docker import DockerRuntime

    assert isinstance(runtime, DockerRuntime)
    host = runtime.engine_host
    engine = EngineToKill(host.url, host.certificates, runtime.labels)
    return WatchdogFence(state.path, engine)


def make_probe(config: AgentConfig, identity: Identity, state: StateDir) -> GpuProbe:
    """NVML unless simulated GPUs are asked for; without a driver it finds none."""
    if config.simulated_gpus is None:
        from skep_agent.probes.nvml import NvmlProbe

        return NvmlProbe()
    return SimulatedGpus(
        config.simulated_gpus,
        config.gpu_model,
        config.gpu_memory_mb,
        seed=identity.name,
        faults=state.gpu_faults,
    )
