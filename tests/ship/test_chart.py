"""The Helm chart: it lints, renders in every shape, and is what Kubernetes accepts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
from ruamel.yaml import YAML
from tests.support.kube_discovery import kube_discovery

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "skep"
VALUES = CHART / "ci-values.yaml"
KUBERNETES = "1.30"

SHAPES = {
    "every branch": [],
    "secrets made elsewhere": ["--set", "existingSecret=mine,secretKey=,databaseUrl=,redisUrl="],
    "no agents and no ingress": ["--set", "agent.enabled=false,ingress.enabled=false"],
    "nodes without GPUs": ["--set", "agent.runtimeClassName="],
    "a claim made elsewhere": ["--set", "logs.existingClaim=mine"],
    "logs in an object store": ["--set", "logs.store=s3://logs/skep"],
}


@pytest.fixture(scope="session")
def helm() -> str:
    binary = ROOT / "charts" / "node_modules" / ".bin" / "helm"
    if not binary.exists():
        subprocess.run(["npm", "ci", "--prefix", str(ROOT / "charts")], check=True)
    return str(binary)


def render(helm: str, *more: str) -> str:
    command = [helm, "template", "hive", str(CHART), "-f", str(VALUES), *more]
    command += ["--kube-version", f"{KUBERNETES}.0"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def documents(text: str) -> list[dict]:
    return [d for d in YAML(typ="safe", pure=True).load_all(text) if d]


def containers(document: dict) -> list[dict]:
    template = document.get("spec", {}).get("template", {})
    return template.get("spec", {}).get("containers", [])


def test_the_chart_lints_without_a_warning(helm):
    done = subprocess.run(
        [helm, "lint", "--strict", str(CHART), "-f", str(VALUES)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("shape", SHAPES)
def test_every_document_is_valid_kubernetes(helm, shape):
    found = documents(render(helm, *SHAPES[shape]))
    assert found
    for document in found:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_kubectl_would_create_every_document(helm, shape, tmp_path):
    text = render(helm, *SHAPES[shape])
    with kube_discovery() as server:
        done = subprocess.run(
            [
                *("kubectl", "create", "--dry-run=client", "--validate=false", "-o", "name"),
                *("--server", server, "--cache-dir", str(tmp_path), "-f", "-"),
            ],
            input=text,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == len(documents(text))


def test_a_missing_secret_is_refused_with_what_to_set(helm):
    command = [helm, "template", "hive", str(CHART), "--kube-version", f"{KUBERNETES}.0"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "or existingSecret" in done.stderr


def test_no_secret_lies_outside_the_secret_object(helm):
    for document in documents(render(helm)):
        if document["kind"] != "Secret":
            assert "postgresql://" not in str(document)
            assert ":secret@" not in str(document)


def test_no_container_is_privileged_or_may_become_so(helm):
    found = [c for d in documents(render(helm)) for c in containers(d)]
    assert len(found) == 7
    for container in found:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert not security.get("privileged")
        assert security["capabilities"]["drop"] == ["ALL"]


def test_every_part_of_the_server_is_there_and_probed(helm):
    found = {d["metadata"]["name"]: d for d in documents(render(helm)) if containers(d)}
    parts = {"hive-web", "hive-gateway", "hive-scheduler", "hive-worker", "hive-beat", "hive-agent"}
    assert parts <= found.keys()
    web = containers(found["hive-web"])[0]
    assert web["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert web["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert found["hive-beat"]["spec"]["replicas"] == 1


def test_finding_s1_what_agents_ask_goes_to_a_process_of_its_own(helm):
    found = {(d["kind"], d["metadata"]["name"]): d for d in documents(render(helm))}
    [rule] = found["Ingress", "hive"]["spec"]["rules"]
    routes = {p["path"]: p["backend"]["service"]["name"] for p in rule["http"]["paths"]}
    assert routes == {
        "/": "hive-web",
        "/ws/agent": "hive-gateway",
        "/api/v1/nodes/join": "hive-gateway",
        "/api/v1/agent/": "hive-gateway",
    }
    [gateway] = containers(found["Deployment", "hive-gateway"])
    assert "skep_platform.gateway.asgi:application" in gateway["command"]
    assert gateway["readinessProbe"]["httpGet"]["path"] == "/readyz"
    selector = found["Service", "hive-gateway"]["spec"]["selector"]
    labels = found["Deployment", "hive-gateway"]["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()


def test_logs_in_an_object_store_need_no_volume(helm):
    found = documents(render(helm, "--set", "logs.store=s3://logs/skep"))
    assert "PersistentVolumeClaim" not in {d["kind"] for d in found}
    [web] = [c for d in found for c in containers(d) if c["name"] == "web"]
    assert {"name": "SKEP_LOG_STORE", "value": "s3://logs/skep"} in web["env"]
