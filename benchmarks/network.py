"""`network`: TCP between two tasks of a gang over two nodes, beside the host network and a bridge.

The nodes are namespaces of this machine with 1500-byte links, so nothing but the CPU limits them:
the numbers show what the network of a gang costs in work per byte and per packet, not what a
network card would carry. Sender and receiver run by turns in all three places.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from statistics import median

from benchmarks.report import report
from tests.support.docker_daemon import in_netns
from tests.support.docker_tasks import make_spec
from tests.support.gangs import gang_spec, make_gang
from tests.support.lab import IMAGE, ROOT, Lab, LabTask

ROUNDS = 3
Place = tuple[tuple[str, ...], tuple[str, ...], str]  # prefix of client and server, its address


def main() -> None:
    with closing(Lab()) as lab:
        for node in (lab.a, lab.b):
            node.start_runtime()
        places = _places(lab)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in places}
        for _ in range(ROUNDS):
            for name, place in places.items():
                found[name].append(_measure(*place))
    for metric, unit in (("throughput", "Gbit/s"), ("latency_p50", "us"), ("latency_p99", "us")):
        values = {name: median(each[metric] for each in runs) for name, runs in found.items()}
        for name, value in values.items():
            report("network", f"{name}_{metric}", value, unit, values["host"])


def _places(lab: Lab) -> dict[str, Place]:
    gang = make_gang(lab.addresses)
    tasks = [
        node.run(gang_spec(gang, f"worker-{n}", IMAGE, "sleep 3600"))
        for n, node in enumerate((lab.a, lab.b))
    ]
    job = make_spec(IMAGE, "sleep 3600", network="job").job_id
    pair = [lab.a.run(make_spec(IMAGE, "sleep 3600", network="job", job_id=job)) for _ in range(2)]
    return {
        "host": (in_netns(lab.a.netns), in_netns(lab.b.netns), lab.b.address),
        "bridge_on_one_node": _between(*pair),
        "gang_over_two_nodes": _between(*tasks),
    }


def _between(client: LabTask, server: LabTask) -> Place:
    return client.network, server.network, server.address


def _measure(client: tuple[str, ...], server: tuple[str, ...], address: str) -> dict[str, float]:
    peer = (sys.executable, "-m", "benchmarks.network_peer")
    with subprocess.Popen([*server, *peer], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        command = [*client, *peer, address, port]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        process.terminate()
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
