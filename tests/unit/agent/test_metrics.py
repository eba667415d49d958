"""What Prometheus reads of a node."""

from __future__ import annotations

import os
import threading
import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.support.ports import free_port

from skep_agent import metrics
from skep_agent.accelerators.simulated import SimulatedGpus
from skep_agent.main import app


def read(probe: SimulatedGpus, connected: bool = True) -> str:
    registry = CollectorRegistry()
    registry.register(metrics.NodeMetrics("gpu-07", probe, lambda: connected))
    return generate_latest(registry).decode()


def test_each_gpu_has_its_numbers_and_its_faults():
    probe = SimulatedGpus(2, "A100", 81920)
    first, second = (gpu.uuid for gpu in probe.gpus())
    probe.fail(second, "XID 79: fallen off the bus", ecc=3)
    probe.faults()  # as the agent asks from time to time
    probe.faults()
    text = read(probe)
    assert f'skep_gpu_healthy{{gpu="{first}",gpu_model="A100",node="gpu-07"}} 1.0' in text
    assert f'skep_gpu_healthy{{gpu="{second}",gpu_model="A100",node="gpu-07"}} 0.0' in text
    assert f'skep_gpu_errors_total{{code="79",gpu="{second}",node="gpu-07"}} 1.0' in text
    assert f'skep_gpu_ecc_errors_total{{gpu="{second}",node="gpu-07"}} 3.0' in text
    assert f'skep_gpu_utilization_percent{{gpu="{first}",node="gpu-07"}}' in text
    assert 'skep_agent_connected{node="gpu-07"} 1.0' in text
    assert 'skep_agent_connected{node="gpu-07"} 0.0' in read(probe, connected=False)


def test_the_machine_has_its_processors_and_memory(tmp_path):
    (tmp_path / "stat").write_text("cpu  700 100 200 5000 1000 0 0 0 50 0\ncpu0 1 1 1 1\n")
    (tmp_path / "meminfo").write_text("MemTotal:  2048 kB\nMemFree: 1 kB\nMemAvailable: 512 kB\n")
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in metrics._machine("gpu-07", tmp_path)
        for sample in family.samples
    }
    ticks = os.sysconf("SC_CLK_TCK")
    assert found == {
        ("skep_node_cpu_seconds_total", "gpu-07", "busy"): 1000 / ticks,
        ("skep_node_cpu_seconds_total", "gpu-07", "idle"): 6000 / ticks,
        ("skep_node_memory_bytes", "gpu-07", "total"): 2048 * 1024,
        ("skep_node_memory_bytes", "gpu-07", "available"): 512 * 1024,
    }
    assert list(metrics._machine("gpu-07", tmp_path / "none")) == []
    assert 'skep_node_cpu_seconds_total{mode="busy",node="gpu-07"}' in read(SimulatedGpus(1))


def test_a_lost_gpu_has_no_numbers_any_more():
    probe = SimulatedGpus(1, "A100", 81920)
    (gpu,) = probe.gpus()
    probe.fail(gpu.uuid, lost=True)
    assert gpu.uuid not in read(probe).partition("skep_gpu_ecc_errors")[0]


def test_scrapes_do_not_gather_at_a_driver_that_hangs(monkeypatch):
    monkeypatch.setattr(metrics, "WAIT_S", 0.01)
    probe = SimulatedGpus(1, "A100", 81920)
    asked, answered, samples = threading.Event(), threading.Event(), probe.samples

    def hang():
        asked.set()
        answered.wait()
        return samples()

    probe.samples = hang
    registry = CollectorRegistry()
    registry.register(metrics.NodeMetrics("gpu-07", probe, lambda: True))
    first = threading.Thread(target=generate_latest, args=(registry,))
    first.start()
    asked.wait()
    second = threading.Thread(target=generate_latest, args=(registry,))
    second.start()
    second.join(30)
    gathered = second.is_alive()
    answered.set()
    first.join()
    assert not gathered
    assert "skep_gpu_healthy{" in generate_latest(registry).decode()


def test_the_numbers_are_served_as_long_as_the_agent_runs():
    port, probe = free_port(), SimulatedGpus(1, "A100", 81920)
    with metrics.served(("127.0.0.1", port), "gpu-07", probe, lambda: True):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            assert b"skep_gpu_power_watts" in answer.read()
        with metrics.served(("127.0.0.1", port), "gpu-08", probe, lambda: True):
            pass  # a port that is taken ends no agent
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60)


@pytest.mark.parametrize("address", ["9470", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", ":1"])
def test_an_address_that_is_none_is_refused(address, tmp_path):
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, ["run", f"--state={tmp_path}", f"--metrics={address}"])
    assert done.exit_code == 2
    assert "ADDRESS:PORT" in done.output
