"""The chart, started: each container that it describes runs as a kubelet would start it, and passes
its own probes; and two of each part go on when some of them are killed. Here no Kubernetes is
needed: test_chart_on_kubernetes.py has one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import docker
import httpx
import pytest
from docker.models.containers import Container
from docker.models.networks import Network
from tests.ship.test_chart import documents, render
from tests.support.base_images import postgres_image, redis_image
from tests.support.compose_project import api
from tests.support.docker_images import import_busybox
from tests.support.docker_tasks import purge
from tests.support.kube_pods import Kubelet, Pod, port_of
from tests.support.ports import free_port
from tests.support.skep_images import SkepImages, skep_images
from tests.support.stack_jobs import gang, log_lines, node_states, reach, submit, until

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(2700)]

PASSWORD = "only-of-this-test"
METRICS_TOKEN = "0123456789abcdef"
SERVERS = ("web", "gateway", "apps", "scheduler", "worker", "beat")
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
Servers = dict[str, list[Pod]]


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    client = docker.from_env(timeout=600)
    yield client
    client.close()


@pytest.fixture(scope="module")
def images(client: docker.DockerClient) -> SkepImages:
    return skep_images(client)


@pytest.fixture
def image(client: docker.DockerClient) -> Iterator[str]:
    name = import_busybox(client, "skep-test/chart-job:1")
    yield name
    client.images.remove(name, force=True)


@pytest.fixture
def network(client: docker.DockerClient) -> Iterator[Network]:
    network = client.networks.create(f"skep-test-{uuid.uuid4().hex[:8]}")
    yield network
    network.remove()


@pytest.fixture
def engines(client: docker.DockerClient, network: Network) -> Iterator[None]:
    """PostgreSQL and Redis, which the chart expects to be there."""
    database = {"POSTGRES_USER": "skep", "POSTGRES_DB": "skep", "POSTGRES_PASSWORD": PASSWORD}
    redis = ["redis-server", "--requirepass", PASSWORD]
    started = [
        _engine(client, network, "postgres", postgres_image(client), environment=database),
        _engine(client, network, "redis", redis_image(client), command=redis),
    ]
    ready = ("pg_isready -h 127.0.0.1 -U skep", f"redis-cli -a {PASSWORD} ping")
    try:
        for container, command in zip(started, ready, strict=True):
            until(lambda at=container, asked=command: at.exec_run(asked).exit_code == 0)
        yield
    finally:
        for container in started:
            container.remove(force=True, v=True)


def _engine(
    client: docker.DockerClient, network: Network, name: str, image: str, **options: Any
) -> Container:
    alias = {network.name: client.api.create_endpoint_config(aliases=[name])}
    unique = f"{network.name}-{name}"
    return client.containers.run(
        image, name=unique, network=network.name, networking_config=alias, detach=True, **options
    )


@pytest.fixture
def port() -> int:
    """Of the loopback, where the web server's Service is: what an ingress would lead to."""
    return free_port()


@pytest.fixture
def kubelet(
    client: docker.DockerClient,
    images: SkepImages,
    network: Network,
    engines: None,
    helm: str,
    port: int,
    tmp_path: Path,
) -> Iterator[Kubelet]:
    no_files: dict[str, list[str]] = {"extraVolumes": [], "extraVolumeMounts": []}
    values = {
        "publicUrl": f"http://127.0.0.1:{port}",
        "databaseUrl": f"postgresql://skep:{PASSWORD}@postgres:5432/skep",
        "redisUrl": f"redis://:{PASSWORD}@redis:6379",
        "image": images.chart_values(),
        "apps": {"url": "http://apps.localhost:8472"},
        "metrics": {"enabled": True, "token": METRICS_TOKEN},
        "agent": {"runtimeClassName": "", "stateDir": str(tmp_path / "agent"), **no_files},
        **no_files,
    }
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    found = documents(render(helm, f"--values={file}"))
    kubelet = Kubelet(client, found, network, network.name, node=network.name)
    try:
        yield kubelet
    finally:
        kubelet.remove()
        credential = tmp_path / "agent" / "credential.json"
        if credential.exists():
            purge(client, json.loads(credential.read_text())["cluster"])


def test_every_container_of_the_chart_passes_its_probes_and_a_job_runs(
    kubelet, images, image, port
):
    servers = install(kubelet, images, port, lambda workload: [kubelet.start(workload)])
    with api(f"http://127.0.0.1:{port}", **admin_of(servers)) as admin_api:
        agent = join(kubelet, admin_api)
        job_id = submit(admin_api, gang(image, "echo hello", tasks=1, gpus=0))
        reach(admin_api, job_id, {"SUCCEEDED"})
        assert log_lines(admin_api, job_id) == {0: ["hello"]}
        # The agent reads output from the engine's own files.
        assert agent.exec("ls", f"{kubelet.client.info()['DockerRootDir']}/containers").split()

    pods = [*chain(*servers.values()), agent]
    for pod in pods:
        assert (pod.name, pod.restarts()) == (pod.name, 0), pod.logs()
        assert (pod.name, pod.written()) == (pod.name, [])
        assert "Read-only file system" not in pod.logs("all")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Pod.stop, pods))


def install(
    kubelet: Kubelet,
    images: SkepImages,
    port: int,
    start: Callable[[dict[str, Any]], list[Pod]],
) -> Servers:
    """Start the pods of each part as `helm install` does it, all at once; then the hook that makes
    the tables. Returns once all probes have succeeded."""
    found = named(kubelet)
    servers = {name: start(found["Deployment", f"hive-{name}"]) for name in SERVERS}
    kubelet.serve(found["Service", "hive-web"], images.server, published=port)
    kubelet.serve(found["Service", "hive-gateway"], images.server)
    migration = kubelet.start(found["Job", "hive-migrate-1"])
    ended = migration.container.wait(timeout=300)
    assert ended["StatusCode"] == 0, migration.logs()
    probe(chain(*servers.values()))
    return servers


def named(kubelet: Kubelet) -> dict[tuple[str, str], dict[str, Any]]:
    return {(d["kind"], d["metadata"]["name"]): d for d in kubelet.documents}


def probe(pods: Iterable[Pod]) -> None:
    pods = list(pods)
    for kind in PROBES:
        probed = [pod for pod in pods if kind in pod.manifest]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda pod, kind=kind: pod.probe(kind), probed))


def admin_of(servers: Servers) -> dict[str, str]:
    """Return the name and the password of an administrator."""
    command = ("django-admin", "skep_ensure_admin", "--username", "admin")
    return json.loads(servers["web"][0].exec(*command))


def join(kubelet: Kubelet, admin_api: httpx.Client) -> Pod:
    """Start the agent of the node, and give its resources to a virtual cluster."""
    token = admin_api.post("/nodes/join-tokens", json={}).raise_for_status().json()["token"]
    # What the notes of the chart have an operator make.
    kubelet.secrets["skep-join-token"] = {"join-token": token}
    agent = kubelet.start(named(kubelet)["DaemonSet", "hive-agent"])
    until(lambda: node_states(admin_api) == [(kubelet.node, "ONLINE")] or _alive(agent))
    for answer in (
        admin_api.post("/virtual-clusters", json={"name": "default"}),
        admin_api.put("/virtual-clusters/default/members/admin", json={"role": "admin"}),
    ):
        answer.raise_for_status()
    return agent


LINES = 40
TALKS = f'for i in $(seq {LINES}); do echo "line $i"; sleep 0.5; done'


def test_two_of_each_part_survive_the_kill_of_the_leader_and_of_a_web_server(
    kubelet, images, image, port
):
    servers = install(kubelet, images, port, kubelet.start_all)
    schedulers, admin = servers["scheduler"], admin_of(servers)
    assert {name: len(pods) for name, pods in servers.items()} == dict.fromkeys(SERVERS, 2)
    with api(f"http://127.0.0.1:{port}", **admin) as admin_api:
        agent = join(kubelet, admin_api)
        running = submit(admin_api, gang(image, TALKS, tasks=1, gpus=0))
        reach(admin_api, running, {"RUNNING"})
    [leader] = until(lambda: leaders(schedulers))
    killed = [leader, servers["web"][0]]
    others = [pod for pod in chain(*servers.values()) if pod not in killed]

    for pod in killed:
        pod.container.kill()

    [heir] = [pod for pod in schedulers if pod is not leader]
    until(lambda: leaders([heir]), 10)  # within 4 s, and two scrapes
    with api(f"http://127.0.0.1:{port}", **admin) as admin_api:
        later = submit(admin_api, gang(image, "echo hello", tasks=1, gpus=0))
        reach(admin_api, later, {"SUCCEEDED"})
        assert log_lines(admin_api, later) == {0: ["hello"]}
        done = reach(admin_api, running, {"SUCCEEDED"})
        assert done["attempt"] == 1, "it was not started a second time"
        assert log_lines(admin_api, running) == {0: [f"line {i}" for i in range(1, LINES + 1)]}

    for pod in killed:  # as the kubelet does it
        pod.container.start()
    probe(killed)
    assert leaders(schedulers) == [heir], "who comes back stands by"
    for pod in (*others, agent):
        assert (pod.name, pod.restarts()) == (pod.name, 0), pod.logs()


def leaders(schedulers: list[Pod]) -> list[Pod]:
    """Return those that lead, by their own metrics."""
    return [pod for pod in schedulers if 'skep_leader{role="scheduler"} 1.0' in _metrics(pod)]


def _metrics(pod: Pod) -> str:
    url = f"http://{pod.address()}:{port_of(pod.manifest, 'metrics')}/metrics"
    headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    return httpx.get(url, headers=headers, timeout=10).raise_for_status().text


def _alive(pod: Pod) -> bool:
    """False, once it has not ended."""
    assert pod.restarts() == 0, pod.logs()
    return False


def test_a_write_outside_of_the_mounts_is_found(kubelet):
    """The check of the other test: of a container with a read-only root, and of one without."""
    found = named(kubelet)
    beat, agent = found["Deployment", "hive-beat"], found["DaemonSet", "hive-agent"]
    for workload in (beat, agent):
        [container] = workload["spec"]["template"]["spec"]["containers"]
        container["command"] = ["sh", "-c", "touch /tmp/allowed; touch /opt/found; sleep 600"]
    closed, opened = kubelet.start(beat), kubelet.start(agent)
    until(lambda: "Read-only file system" in closed.logs())
    assert closed.written() == []
    until(lambda: "/opt/found" in opened.written())
