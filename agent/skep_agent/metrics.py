"""The numbers of a node and its GPUs, and the port where Prometheus reads them (`--metrics`).

Numbers of single GPUs are served here, and not by the server: with 10,000 nodes it would have those
of 80,000. The probe is asked at each scrape, in the thread of the scrape.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from skep_agent.accelerators.base import GpuProbe
from skep_agent.sample_messages import GpuSample

log = structlog.get_logger(__name__)

WAIT_S = 5.0  # for another scrape that asks the driver; past it the GPUs are left out
GPU = ("node", "gpu")
GAUGES: tuple[tuple[str, str, Callable[[GpuSample], float | None]], ...] = (
    ("skep_gpu_utilization_percent", "Share of time with a kernel.", lambda s: s.utilization),
    ("skep_gpu_memory_used_bytes", "Memory in use.", lambda s: s.memory_used_mb * 2**20),
    ("skep_gpu_temperature_celsius", "Temperature.", lambda s: s.temperature_c),
    ("skep_gpu_power_watts", "Power.", lambda s: s.power_w),
)


def parsed_address(text: str) -> tuple[str, int] | None:
    """Return the parts of "127.0.0.1:9470"; None for "". Raises ValueError."""
    host, _, port = text.rpartition(":")
    if not text:
        return None
    if not host or not port.isdecimal() or not 0 < int(port[:6]) < 65536:
        raise ValueError(f"{text!r} is not ADDRESS:PORT")
    return host.strip("[]"), int(port)


class NodeMetrics(Collector):
    """Asks the probe of a node when it is asked itself.

    node: the node's name; connected: whether the gateway answers
    """

    def __init__(self, node: str, probe: GpuProbe, connected: Callable[[], bool]) -> None:
        self._node = node
        self._probe = probe
        self._connected = connected
        self._asking = threading.Lock()

    def describe(self) -> list[Metric]:
        """Return nothing: to be registered asks no driver."""
        return []

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily(
            "skep_agent_connected", "Whether the gateway answers.", labels=["node"]
        )
        up.add_metric([self._node], float(self._connected()))
        yield up
        yield from _machine(self._node)
        # A driver may hang, and each scrape has a thread: they must not gather there.
        if self._asking.acquire(timeout=WAIT_S):
            try:
                found = list(self._gpus())
            finally:
                self._asking.release()
            yield from found

    def _gpus(self) -> Iterator[Metric]:
        samples = self._probe.samples()
        for name, about, value in GAUGES:
            family = GaugeMetricFamily(name, about, labels=GPU)
            for sample in samples:
                if (found := value(sample)) is not None:
                    family.add_metric([self._node, sample.uuid], found)
            yield family
        about = "1: usable; 0: bad, or lost."
        healthy = GaugeMetricFamily("skep_gpu_healthy", about, labels=(*GPU, "gpu_model"))
        for gpu in self._probe.gpus():
            healthy.add_metric([self._node, gpu.uuid, gpu.model], float(gpu.healthy))
        yield healthy
        about = "Errors that the driver reported, by the vendor's code: for NVIDIA the XID."
        errors = CounterMetricFamily("skep_gpu_errors", about, labels=(*GPU, "code"))
        for (uuid, code), number in sorted(self._probe.errors().items()):
            errors.add_metric([self._node, uuid, code], number)
        yield errors
        about = "Errors of the memory that ECC did not correct."
        ecc = CounterMetricFamily("skep_gpu_ecc_errors", about, labels=GPU)
        for uuid, number in sorted(self._probe.ecc_errors().items()):
            ecc.add_metric([self._node, uuid], number)
        yield ecc


def _machine(node: str, proc: Path = Path("/proc")) -> Iterator[Metric]:
    """Return the use of the machine's processors and memory, see proc_stat(5) and proc_meminfo(5).
    Its disk is in the heartbeats."""
    with suppress(OSError, ValueError, IndexError):
        times = [int(word) for word in (proc / "stat").read_text().split("\n")[0].split()[1:9]]
        idle, ticks = times[3] + times[4], os.sysconf("SC_CLK_TCK")  # idle, and iowait
        cpu = CounterMetricFamily(
            "skep_node_cpu_seconds", "Time of all processors.", labels=("node", "mode")
        )
        cpu.add_metric([node, "busy"], (sum(times) - idle) / ticks)
        cpu.add_metric([node, "idle"], idle / ticks)
        yield cpu
    with suppress(OSError, ValueError, KeyError):
        lines = (line.split() for line in (proc / "meminfo").read_text().splitlines())
        found = {words[0]: int(words[1]) * 1024 for words in lines}
        memory = GaugeMetricFamily(
            "skep_node_memory_bytes", "Memory of the machine.", labels=("node", "kind")
        )
        memory.add_metric([node, "total"], found["MemTotal:"])
        memory.add_metric([node, "available"], found["MemAvailable:"])
        yield memory


@contextmanager
def served(
    listen: tuple[str, int] | None, node: str, probe: GpuProbe, connected: Callable[[], bool]
) -> Iterator[None]:
    """Serve the numbers as long as the block runs. A port that is taken is logged: jobs do not wait
    for numbers."""
    if listen is None:
        yield
        return
    registry = CollectorRegistry()
    registry.register(NodeMetrics(node, probe, connected))
    ProcessCollector(registry=registry)
    host, port = listen
    try:
        server, _ = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        log.error("metrics_not_served", listen=f"{host}:{port}", error=str(error))
        yield
        return
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
