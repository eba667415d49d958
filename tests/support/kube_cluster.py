"""Kubernetes of one node, for the tests of the chart: etcd, API server, controller manager,
scheduler, kubelet and kube-proxy, as scripts/bootstrap-long builds them from Debian's sources.

Pods run in the Docker engine of this machine, on its default bridge. Names of Services are answered
by dnsmasq out of the API. There is no network plugin that enforces NetworkPolicies, and no ingress
controller.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import docker
import httpx
from tests.support.docker_images import import_busybox
from tests.support.ports import free_port
from tests.support.stack_jobs import until

ROOT = Path(__file__).resolve().parents[2]
BINARIES = ROOT / ".venv" / "kubernetes" / "bin"
NODE = "node-1"
DOMAIN = "cluster.local"
SERVICES = "10.97.0.0/24"
PAUSE = "skep-test/pause:1"
NAMESPACE = "default"


@dataclass(slots=True)
class KubeCluster:
    """A cluster that runs; `kubeconfig` is the administrator's."""

    folder: Path
    address: str
    kubeconfig: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def kubectl(self, *words: str, given: str | None = None) -> str:
        """Run kubectl and return what it prints. Fails with what it says."""
        return self.run(["kubectl", *words], given=given)

    def run(self, command: list[str], given: str | None = None, within_s: float = 600) -> str:
        """Run a client of the cluster, such as kubectl or Helm, and return what it prints."""
        done = subprocess.run(
            command,
            env=self.environment(),
            input=given,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}\n{self.describe()}"
        return done.stdout

    def environment(self) -> dict[str, str]:
        home = str(self.folder)  # clients keep what they learn of the API there
        return {"PATH": os.environ["PATH"], "HOME": home, "KUBECONFIG": str(self.kubeconfig)}

    def get(self, kind: str, *words: str) -> list[dict[str, Any]]:
        """Return the objects of a kind in the namespace of the tests."""
        found = json.loads(self.kubectl("get", kind, *words, "--output=json"))
        return found["items"] if found["kind"] == "List" else [found]

    def pods(self, component: str) -> list[dict[str, Any]]:
        return self.get("pods", f"--selector=app.kubernetes.io/component={component}")

    def describe(self) -> str:
        """What a person would look at when something does not start."""
        said = []
        for words in (
            ["get", "pods", "--output=wide"],
            ["get", "events", "--sort-by=.lastTimestamp"],
        ):
            command = ["kubectl", *words]
            done = subprocess.run(
                command, env=self.environment(), capture_output=True, text=True, check=False
            )
            said.append(done.stdout[-6000:] + done.stderr)
        return "\n".join(said)

    def log(self, name: str) -> str:
        """The end of the log of a process of Kubernetes itself."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]


@contextmanager
def kube_cluster(client: docker.DockerClient, folder: Path) -> Iterator[KubeCluster]:
    """Nothing of it is left at the end: processes, containers, rules of the firewall."""
    assert (BINARIES / "kubelet").exists(), "run scripts/bootstrap-long, as make test-long does"
    import_busybox(client, PAUSE, ('CMD ["sleep", "1000000000"]',))
    bridge = client.networks.get("bridge").attrs["IPAM"]["Config"][0]
    cluster = KubeCluster(folder, _address_of_bridge(bridge), folder / "admin.kubeconfig")
    with ExitStack() as stack:
        stack.callback(_unmount, folder)
        stack.callback(_remove_pods, client)
        start = partial(_start, stack, cluster)
        etcd = _start_etcd(start, cluster)
        _start_api_server(start, cluster, etcd)
        server = f"--kubeconfig={cluster.kubeconfig}"
        start(
            "kube-controller-manager",
            server,
            "--port=0",
            "--secure-port=0",
            "--leader-elect=false",
            f"--service-account-private-key-file={folder}/accounts.key",
        )
        start("kube-scheduler", server, "--port=0", "--secure-port=0", "--leader-elect=false")
        _start_dns(start, cluster)
        _start_kubelet(start, cluster)
        stack.callback(_remove_rules)
        start(
            "kube-proxy",
            server,
            f"--hostname-override={NODE}",
            "--proxy-mode=iptables",
            # Pods lie on one bridge: without it, answers would not come by the way they were asked.
            "--masquerade-all",
            f"--cluster-cidr={bridge['Subnet']}",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            f"--healthz-bind-address=127.0.0.1:{free_port()}",
            f"--metrics-bind-address=127.0.0.1:{free_port()}",
        )
        until(lambda: _is_ready(cluster), 120)
        stack.callback(_delete_all, cluster)
        yield cluster


def _address_of_bridge(config: dict[str, str]) -> str:
    """Return this machine's address there, which not every version of the engine says."""
    return config.get("Gateway") or str(next(ip_network(config["Subnet"]).hosts()))


def _start(stack: ExitStack, cluster: KubeCluster, name: str, *options: str) -> None:
    """Start a program, with its output in a file, and have it stopped at the end."""
    binary = shutil.which(name, path=f"{BINARIES}:{os.environ['PATH']}:/usr/sbin")
    assert binary, f"{name} is missing: run scripts/bootstrap-long"
    with (cluster.folder / f"{name}.log").open("wb") as output:
        process = subprocess.Popen(
            [binary, *options], stdout=output, stderr=output, cwd=cluster.folder
        )
    cluster.processes[name] = process
    stack.callback(_stop, process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _remove_rules() -> None:
    """Take out what kube-proxy and kubelet wrote into the firewall; both leave it at their end."""
    for family in ("iptables", "ip6tables"):
        save, restore = f"/usr/sbin/{family}-save", f"/usr/sbin/{family}-restore"
        rules = subprocess.run([save], check=True, capture_output=True, text=True).stdout
        kept = "".join(f"{line}\n" for line in rules.splitlines() if "KUBE-" not in line)
        subprocess.run([restore], input=kept, check=True, capture_output=True, text=True)


def _unmount(folder: Path) -> None:
    """Take down the volumes of pods that the kubelet had no time for."""
    for line in reversed(Path("/proc/mounts").read_text().splitlines()):
        point = line.split()[1]
        if point.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)


def _start_etcd(start: Callable[..., None], cluster: KubeCluster) -> str:
    clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    start(
        "etcd",
        f"--data-dir={cluster.folder}/etcd",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    )
    return clients


def _start_api_server(start: Callable[..., None], cluster: KubeCluster, etcd: str) -> None:
    folder, port = cluster.folder, free_port()
    admin, node = uuid.uuid4().hex, uuid.uuid4().hex
    tokens = folder / "tokens.csv"
    tokens.write_text(f"{admin},admin,1,system:masters\n{node},system:node:{NODE},2,system:nodes\n")
    tokens.chmod(0o600)
    key = folder / "accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    start(
        "kube-apiserver",
        f"--etcd-servers={etcd}",
        "--bind-address=127.0.0.1",
        f"--advertise-address={cluster.address}",
        f"--secure-port={port}",
        "--insecure-port=0",
        f"--cert-dir={folder}/api",
        f"--token-auth-file={tokens}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-cluster-ip-range={SERVICES}",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-account-issuer=https://kubernetes.default.svc",
    )
    authority = folder / "api" / "apiserver.crt"
    for name, token in (("admin", admin), ("node", node)):
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "users": [{"name": name, "user": {"token": token}}],
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": f"https://127.0.0.1:{port}",
                        "certificate-authority": str(authority),
                    },
                }
            ],
        }
        file = folder / f"{name}.kubeconfig"
        file.touch(0o600)
        file.write_text(json.dumps(config))
    headers = {"Authorization": f"Bearer {admin}"}

    def answers() -> bool:
        process = cluster.processes["kube-apiserver"]
        assert process.poll() is None, cluster.log("kube-apiserver")
        try:
            url = f"https://127.0.0.1:{port}/readyz"
            # Its certificate is made at its start, and is this test's own.
            return httpx.get(url, headers=headers, verify=False, timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    until(answers, 120)


def _start_dns(start: Callable[..., None], cluster: KubeCluster) -> None:
    (cluster.folder / "names").touch()
    start(
        "dnsmasq",
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--user=root",
        "--pid-file=",
        "--no-resolv",
        "--no-hosts",
        f"--addn-hosts={cluster.folder}/names",
        f"--listen-address={cluster.address}",
        "--bind-interfaces",
        f"--local=/{DOMAIN}/",
    )


def publish_names(cluster: KubeCluster) -> None:
    """Have DNS answer for the Services that there are."""
    lines = [
        f"{at['spec']['clusterIP']} {at['metadata']['name']}.{NAMESPACE}.svc.{DOMAIN}\n"
        for at in cluster.get("services")
    ]
    (cluster.folder / "names").write_text("".join(lines))
    cluster.processes["dnsmasq"].send_signal(signal.SIGHUP)


def _start_kubelet(start: Callable[..., None], cluster: KubeCluster) -> None:
    folder = cluster.folder
    (folder / "resolv.conf").write_text("")
    start(
        "kubelet",
        f"--kubeconfig={folder}/node.kubeconfig",
        f"--hostname-override={NODE}",
        f"--node-ip={cluster.address}",
        f"--address={cluster.address}",
        f"--root-dir={folder}/kubelet",
        f"--cert-dir={folder}/kubelet-certificates",
        f"--pod-infra-container-image={PAUSE}",
        f"--cluster-dns={cluster.address}",
        f"--cluster-domain={DOMAIN}",
        f"--resolv-conf={folder}/resolv.conf",
        f"--port={free_port()}",
        "--read-only-port=0",
        "--healthz-port=0",
        "--cgroups-per-qos=false",
        "--enforce-node-allocatable=",
        "--fail-swap-on=false",
        # The engine's other images and containers are not its own to remove.
        "--image-gc-high-threshold=100",
        "--eviction-hard=memory.available<1Mi",
        # Only pods of the tests reach it, on the engine's bridge.
        "--authorization-mode=AlwaysAllow",
        "--anonymous-auth=true",
    )


def _is_ready(cluster: KubeCluster) -> bool:
    process = cluster.processes["kubelet"]
    assert process.poll() is None, cluster.log("kubelet")
    nodes = cluster.get("nodes")
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for node in nodes
        for condition in node["status"].get("conditions", [])
    )


def _delete_all(cluster: KubeCluster) -> None:
    """Have the kubelet end the pods while there is one."""
    env = cluster.environment()
    for kinds in ("deployments,daemonsets,jobs", "pods"):
        command = ["kubectl", "delete", kinds, "--all", "--grace-period=0", "--force"]
        subprocess.run(command, env=env, capture_output=True, timeout=120, check=False)


def _remove_pods(client: docker.DockerClient) -> None:
    label = {"label": "io.kubernetes.pod.namespace=default"}
    for container in client.containers.list(all=True, filters=label, ignore_removed=True):
        container.remove(force=True, v=True)
