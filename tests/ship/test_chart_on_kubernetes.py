"""The chart on a real Kubernetes of one node: installed, used, upgraded, drained and uninstalled by
the commands of the documentation."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import httpx
import pytest
from tests.support.balancer import Balancer, balancer
from tests.support.base_images import postgres_image, redis_image
from tests.support.compose_project import api
from tests.support.docker_images import import_busybox
from tests.support.docker_tasks import purge
from tests.support.kube_cluster import NODE, KubeCluster, kube_cluster, publish_names
from tests.support.skep_images import skep_images
from tests.support.stack_jobs import gang, log_lines, node_states, reach, submit, until

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(2700)]

CHART = Path(__file__).resolve().parents[2] / "charts" / "skep"
PASSWORD = "only-of-this-test"
SERVERS = ("web", "gateway", "apps", "scheduler", "worker", "beat")
LINES = 240
TALKS = f'for i in $(seq {LINES}); do echo "line $i"; sleep 0.5; done'


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    client = docker.from_env(timeout=600)
    yield client
    client.close()


@pytest.fixture
def image(client: docker.DockerClient) -> Iterator[str]:
    name = import_busybox(client, "skep-test/kubernetes-job:1")
    yield name
    client.images.remove(name, force=True)


@pytest.fixture
def cluster(client: docker.DockerClient, tmp_path: Path) -> Iterator[KubeCluster]:
    folder = tmp_path / "kubernetes"
    folder.mkdir()
    with kube_cluster(client, folder) as cluster:
        _create_engines(cluster, client)
        _create_volume(cluster, tmp_path / "logs")
        yield cluster


@pytest.fixture
def ingress() -> Iterator[Balancer]:
    """What an ingress controller is for people and agents: a way to the web server's Service."""
    with balancer() as found:
        yield found


@pytest.fixture
def values(
    client: docker.DockerClient, ingress: Balancer, tmp_path: Path
) -> Iterator[dict[str, Any]]:
    images = skep_images(client)
    little = {"resources": {"requests": {"cpu": "10m", "memory": "64Mi"}}}
    state = tmp_path / "agent"
    yield {
        "publicUrl": ingress.url,
        "databaseUrl": f"postgresql://skep:{PASSWORD}@postgres:5432/skep",
        "redisUrl": f"redis://:{PASSWORD}@redis:6379",
        "secretKey": "0123456789" * 6,
        "image": images.chart_values(),
        "apps": {"url": "http://apps.localhost:8472", **little},
        "logs": {"storageClass": "logs", "size": "1Gi"},
        "ingress": {"host": "skep.example.org", "tlsSecret": ""},
        "agent": {"runtimeClassName": "", "stateDir": str(state)},
        **{name: little for name in SERVERS if name != "apps"},
    }
    credential = state / "credential.json"
    if credential.exists():
        purge(client, json.loads(credential.read_text())["cluster"])


def test_it_is_installed_upgraded_while_a_job_runs_and_uninstalled(
    cluster, ingress, values, helm, image, tmp_path
):
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    install = [helm, "install", "skep", str(CHART), "-f", str(file), "--wait", "--timeout=6m"]
    watch = threading.Thread(target=_names_follow, args=(cluster, ingress), daemon=True)
    watch.start()
    cluster.run(install)

    for name in SERVERS:
        cluster.kubectl("rollout", "status", f"deployment/skep-{name}", "--timeout=120s")
    [claim] = cluster.get("persistentvolumeclaims")
    assert claim["status"]["phase"] == "Bound"
    ensure = ("django-admin", "skep_ensure_admin", "--username", "admin")
    admin = json.loads(cluster.kubectl("exec", "deploy/skep-web", "--", *ensure))
    with api(ingress.url, **admin) as admin_api:
        _join(cluster, admin_api)
        running = submit(admin_api, gang(image, TALKS, tasks=1, gpus=0))
        reach(admin_api, running, {"RUNNING"})

        before = _pods(cluster)
        with _requests(admin_api) as answers:
            upgrade = [helm, "upgrade", "skep", str(CHART), "-f", str(file), "--wait"]
            cluster.run([*upgrade, "--set", "agent.args={--labels=rack=r1}", *_changed()])
        assert set(answers) == {200}, answers
        until(lambda: not before & _pods(cluster))  # each pod was replaced

        again = submit(admin_api, gang(image, "echo hello", tasks=1, gpus=0))
        reach(admin_api, again, {"SUCCEEDED"})
        assert log_lines(admin_api, again) == {0: ["hello"]}
        done = reach(admin_api, running, {"SUCCEEDED"})
        assert done["attempt"] == 1, "it was not started a second time"
        assert log_lines(admin_api, running) == {0: [f"line {i}" for i in range(1, LINES + 1)]}

    _a_drain_ends_one_replica_at_a_time(cluster)

    cluster.run([helm, "uninstall", "skep"])
    own = "--selector=app.kubernetes.io/instance=skep"
    until(lambda: not cluster.get("all,secrets,ingresses,networkpolicies,pdb", own))
    [kept] = cluster.get("persistentvolumeclaims")
    assert kept["metadata"]["name"] == claim["metadata"]["name"], "logs are kept"


def _changed() -> tuple[str, ...]:
    """A setting of the servers, so that each pod is another one."""
    return ("--set", "extraEnv[0].name=SKEP_LEASE_S", "--set-string", "extraEnv[0].value=60")


def _pods(cluster: KubeCluster) -> set[str]:
    own = "--selector=app.kubernetes.io/instance=skep"
    return {pod["metadata"]["uid"] for pod in cluster.get("pods", own)}


def _create_engines(cluster: KubeCluster, client: docker.DockerClient) -> None:
    """PostgreSQL and Redis, which the chart expects to be there."""
    database = {"POSTGRES_USER": "skep", "POSTGRES_DB": "skep", "POSTGRES_PASSWORD": PASSWORD}
    redis = ["redis-server", "--requirepass", PASSWORD]
    for name, image, port, more in (
        ("postgres", postgres_image(client), 5432, {"env": _variables(database)}),
        ("redis", redis_image(client), 6379, {"command": redis}),
    ):
        container = {
            "name": name,
            "image": image,
            "imagePullPolicy": "Never",
            "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
            **more,
        }
        labels = {"app": name}
        for document in (
            _document("v1", "Pod", name, labels, {"containers": [container]}),
            _document(
                "v1", "Service", name, labels, {"selector": labels, "ports": [{"port": port}]}
            ),
        ):
            cluster.kubectl("apply", "--filename=-", given=json.dumps(document))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/postgres", "pod/redis", "--timeout=120s")
    publish_names(cluster)


def _create_volume(cluster: KubeCluster, folder: Path) -> None:
    """A volume for the logs, which every web server mounts. The kubelet gives it to the group of
    the pods, as it does with one of a network."""
    folder.mkdir()
    node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "logs",
        "local": {"path": str(folder)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [node]}]}},
    }
    document = _document("v1", "PersistentVolume", "logs", {}, spec)
    cluster.kubectl("apply", "--filename=-", given=json.dumps(document))


def _document(
    version: str, kind: str, name: str, labels: dict[str, str], spec: dict[str, Any]
) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _variables(env: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in env.items()]


def _names_follow(cluster: KubeCluster, ingress: Balancer) -> None:
    """As soon as the Services are there, DNS knows them and the ingress leads to the web server."""

    def found() -> bool:
        services = {at["metadata"]["name"]: at["spec"] for at in cluster.get("services")}
        if not {"skep-web", "skep-gateway"} <= services.keys():
            return False
        publish_names(cluster)
        ingress.host = services["skep-web"]["clusterIP"]
        ingress.backends = [services["skep-web"]["ports"][0]["port"]]
        return True

    until(found)


def _join(cluster: KubeCluster, admin_api: httpx.Client) -> None:
    """Start the agent of the node as the notes of the chart say, and make a virtual cluster."""
    token = admin_api.post("/nodes/join-tokens", json={}).raise_for_status().json()["token"]
    secret = ("create", "secret", "generic", "skep-join-token")
    cluster.kubectl(*secret, f"--from-literal=join-token={token}")
    cluster.kubectl("label", "node", NODE, "skep.io/node=true")
    until(lambda: node_states(admin_api) == [(NODE, "ONLINE")], 180)
    for answer in (
        admin_api.post("/virtual-clusters", json={"name": "default"}),
        admin_api.put("/virtual-clusters/default/members/admin", json={"role": "admin"}),
    ):
        answer.raise_for_status()


@contextmanager
def _requests(admin_api: httpx.Client) -> Iterator[list[int | str]]:
    """Ask for the jobs all the time, each time by a new connection; yield the answers."""
    answers: list[int | str] = []
    ended = threading.Event()

    def ask() -> None:
        url, headers = f"{admin_api.base_url}jobs?limit=1", dict(admin_api.headers)
        while not ended.is_set():
            try:
                answers.append(httpx.get(url, headers=headers, timeout=60).status_code)
            except httpx.TransportError as error:
                answers.append(repr(error))
            time.sleep(0.2)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        ended.set()
        thread.join(60)


def _a_drain_ends_one_replica_at_a_time(cluster: KubeCluster) -> None:
    """The second eviction is refused until the first pod is replaced: it waits for a node that
    takes pods."""
    cluster.kubectl("cordon", NODE)
    drained = cluster.pods("web")
    assert len(drained) == 2
    said = [_evict(cluster, pod["metadata"]["name"]) for pod in drained]
    assert said[0] == "Success"
    assert "disruption budget" in said[1], said
    cluster.kubectl("uncordon", NODE)
    cluster.kubectl("rollout", "status", "deployment/skep-web", "--timeout=120s")


def _evict(cluster: KubeCluster, pod: str) -> str:
    """Return how the API server answers to what `kubectl drain` sends it."""
    document = {
        "apiVersion": "policy/v1beta1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": "default"},
    }
    path = f"/api/v1/namespaces/default/pods/{pod}/eviction"
    try:
        answer = cluster.kubectl(
            "create", f"--raw={path}", "--filename=-", given=json.dumps(document)
        )
    except AssertionError as refused:
        return str(refused)
    return str(json.loads(answer)["status"])
