"""What a node is, as its agent reports it: a part of the wire contract in `protocol`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Part of a frame. Unknown fields are ignored: either side may be newer."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Gpu(Message):
    """One GPU, named by its UUID everywhere; `index` is for people only."""

    uuid: str
    model: str
    memory_mb: int
    index: int
    pci_bus_id: str = ""
    numa_node: int | None = None
    healthy: bool = True
    problem: str = ""  # for example "XID 79: fallen off the bus"


class NodeWarning(Message):
    """What an operator should see to on a node that goes on all the same."""

    code: str  # stable: such as "state_not_written"
    message: str  # a sentence: what is wrong
    action: str = ""  # what to do


class Inventory(Message):
    """What a node has. `topology[a][b]` is the NVML common ancestor level of two GPU UUIDs:
    "NV<links>", "PIX", "PXB", "PHB", "NODE" or "SYS" (the words of `nvidia-smi topo -m`)."""

    hostname: str
    address: str  # where tasks of other nodes reach this one
    cpus: float
    memory_mb: int
    gpus: list[Gpu] = []
    topology: dict[str, dict[str, str]] = {}
    driver_version: str = ""
    engine_version: str = ""
    # Versions of what keeps tasks apart, with the revision of a distribution's package: "runc",
    # and "toolkit" (NVIDIA's); what is not known is left out.
    components: dict[str, str] = {}
    runtime: str = "docker"  # "docker" or "mock"
    port_range: tuple[int, int] = (20000, 29999)  # inclusive; ports the agent may hand to tasks
    labels: dict[str, str] = {}
    gang_network: bool = False  # whether tasks here can be in the network of a gang over nodes
    network_problem: str = ""  # why containers cannot be isolated here, and none is started
    warnings: list[NodeWarning] = []
    rdma_devices: list[str] = []  # paths of the InfiniBand devices that tasks may be given
