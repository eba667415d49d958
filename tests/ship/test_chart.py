"""The Helm chart: it lints, renders in every shape, and is what Kubernetes accepts."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
from ruamel.yaml import YAML
from tests.ship.test_monitoring import alerts, promtool
from tests.support.kube_discovery import kube_discovery

from skep_platform.cluster.services import MAX_JOIN_TTL

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "skep"
VALUES = CHART / "ci-values.yaml"
KUBERNETES = "1.33"
# The oldest and the newest whose schemas there are, too: an API that was removed is in none.
VERSIONS = ("1.25", KUBERNETES, "1.37")

SHAPES = {
    "every branch": [],
    "secrets made elsewhere": ["--set", "existingSecret=mine,secretKey=,databaseUrl=,redisUrl="],
    "no agents and no ingress": ["--set", "agent.enabled=false,ingress.enabled=false"],
    "nodes without GPUs": ["--set", "agent.runtimeClassName="],
    "a claim made elsewhere": ["--set", "logs.existingClaim=mine"],
    "logs in an object store": ["--set", "logs.store=s3://logs/skep"],
    "storages": ["--set", "agent.storages.enabled=true", "--set", "agent.storages.roots={/srv/a}"],
    "metrics": [
        "--set",
        "metrics.enabled=true,metrics.token=0123456789abcdef,agent.metricsPort=9471",
    ],
    "dashboards": [
        "--set",
        "metrics.enabled=true,metrics.token=0123456789abcdef,metrics.dashboards=true",
    ],
    "no network policies": ["--set", "networkPolicy.enabled=false"],
    "engines elsewhere, clients from anywhere": [
        "--set",
        "networkPolicy.clients=null,networkPolicy.postgres.podLabels=null,"
        "networkPolicy.postgres.cidr=10.0.0.5/32,networkPolicy.redis.namespaceLabels.team=data",
    ],
}


WHOLE = (
    "--set=apps.url=https://apps.example.net",
    "--set=metrics.enabled=true,metrics.token=0123456789abcdef",
)
WORKERS = ("scheduler", "worker", "beat")


def render(helm: str, *more: str, version: str = KUBERNETES) -> str:
    command = [helm, "template", "hive", str(CHART), "-f", str(VALUES), *more]
    command += ["--kube-version", f"{version}.0"]
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


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_document_is_valid_kubernetes(helm, shape, version):
    found = documents(render(helm, *SHAPES[shape], version=version))
    assert found
    for document in found:
        kubernetes_validate.validate(document, version, strict=True)


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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("scheduler.replica=3", "replica"),
        ("webb.replicas=3", "webb"),
        ("web.replicas=-1", "replicas"),
        ("networkPolicy.redis.port=70000", "port"),
        ("publicUrl=skep.example.org", "publicUrl"),
        ("redisUrl=redis-1:6379", "redisUrl"),
        ("agent.stateDir=state", "stateDir"),
        ("metrics.token=short", "token"),
        ("extraEnv[0].Name=X", "extraEnv"),
        ("networkPolicy.redis.extraPorts={70000}", "extraPorts"),
    ],
)
def test_a_value_that_would_be_left_out_or_break_a_part_is_refused(helm, given, said):
    with pytest.raises(subprocess.CalledProcessError) as refused:
        render(helm, "--set", given)
    assert "values don't meet the specifications of the schema" in refused.value.stderr
    assert said in refused.value.stderr


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


def test_an_agent_with_storages_shares_its_mounts_with_the_node(helm):
    values = ("nfsServers={nfs-1.example.org,nfs-2.example.org}", "roots={/srv/a,/srv/b}")
    values = (*values, "s3Endpoints={https://s3.example.org,http://minio:9000}")
    settings = [f"--set=agent.storages.{value}" for value in ("enabled=true", *values)]
    agents = [d for d in documents(render(helm, *settings)) if d["kind"] == "DaemonSet"]
    (agent,) = containers(agents[0])
    assert agent["securityContext"] == {"privileged": True}
    env = {item["name"]: item.get("value") for item in agent["env"]}
    assert env["SKEP_NFS_SERVERS"] == "nfs-1.example.org nfs-2.example.org"
    assert env["SKEP_STORAGE_ROOTS"] == "/srv/a /srv/b"
    assert env["SKEP_S3_ENDPOINTS"] == "https://s3.example.org http://minio:9000"
    mounts = {m["mountPath"]: m.get("mountPropagation") for m in agent["volumeMounts"]}
    assert mounts["/run/skep-agent"] == "Bidirectional"
    assert mounts["/srv/a"] == mounts["/srv/b"] == "HostToContainer"


def test_every_part_of_the_server_is_there_and_probed(helm):
    found = {d["metadata"]["name"]: d for d in documents(render(helm)) if containers(d)}
    parts = {"hive-web", "hive-gateway", "hive-scheduler", "hive-worker", "hive-beat", "hive-agent"}
    assert parts <= found.keys()
    web = containers(found["hive-web"])[0]
    assert web["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert web["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert (
        found["hive-beat"]["spec"]["replicas"] == found["hive-scheduler"]["spec"]["replicas"] == 2
    )


def test_no_container_is_restarted_for_an_engine_that_is_away(helm):
    """/healthz asks neither PostgreSQL nor Redis, and the file is touched without them, too."""
    found = documents(render(helm, "--set=apps.url=https://apps.example.net"))
    servers = [c for d in found if d["kind"] == "Deployment" for c in containers(d)]
    assert len(servers) == 6
    for container in servers:
        probe = container["livenessProbe"]
        if "httpGet" in probe:
            assert probe["httpGet"]["path"] == "/healthz"
            continue
        [touched] = [e["value"] for e in container["env"] if e["name"] == "SKEP_LIVENESS_FILE"]
        assert probe["exec"]["command"] == ["sh", "-c", f'test -n "$(find {touched} -mmin -10)"']


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


def test_apps_of_jobs_have_a_wildcard_host_that_leads_to_their_proxy(helm):
    assert "hive-apps" not in render(helm)
    text = render(helm, "--set=apps.url=https://apps.example.net", "--set=apps.tlsSecret=wild")
    found = {(d["kind"], d["metadata"]["name"]): d for d in documents(text)}
    ingress = found["Ingress", "hive-apps"]["spec"]
    assert ingress["tls"] == [{"hosts": ["*.apps.example.net"], "secretName": "wild"}]
    assert [rule["host"] for rule in ingress["rules"]] == ["*.apps.example.net"]
    [proxy] = containers(found["Deployment", "hive-apps"])
    assert "skep_platform.interactive.asgi:application" in proxy["command"]
    [web] = containers(found["Deployment", "hive-web"])
    assert {"name": "SKEP_APPS_URL", "value": "https://apps.example.net"} in web["env"]
    assert ("NetworkPolicy", "hive-apps") in found


def test_logs_in_an_object_store_need_no_volume(helm):
    found = documents(render(helm, "--set", "logs.store=s3://logs/skep"))
    assert "PersistentVolumeClaim" not in {d["kind"] for d in found}
    [web] = [c for d in found for c in containers(d) if c["name"] == "web"]
    assert {"name": "SKEP_LOG_STORE", "value": "s3://logs/skep"} in web["env"]


def test_each_part_runs_more_than_once_on_several_machines_and_never_ends_as_a_whole(helm):
    found = documents(render(helm, *WHOLE))
    parts = [d for d in found if d["kind"] == "Deployment"]
    assert len(parts) == 6
    budgets = [d["spec"] for d in found if d["kind"] == "PodDisruptionBudget"]
    for part in parts:
        spec, template = part["spec"], part["spec"]["template"]
        labels = template["metadata"]["labels"]
        assert spec["replicas"] >= 2
        assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
        anti = template["spec"]["affinity"]["podAntiAffinity"]
        [term] = anti["preferredDuringSchedulingIgnoredDuringExecution"]
        assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
        assert term["podAffinityTerm"]["labelSelector"]["matchLabels"].items() <= labels.items()
        [budget] = [b for b in budgets if b["selector"]["matchLabels"].items() <= labels.items()]
        assert budget["maxUnavailable"] == 1
    for container in [c for document in found for c in containers(document)]:
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


def test_all_pods_of_the_server_run_where_and_as_whom_the_values_say(helm):
    parts = [d for d in documents(render(helm, *WHOLE)) if d["kind"] in ("Deployment", "Job")]
    assert len(parts) == 7
    for spec in (part["spec"]["template"]["spec"] for part in parts):
        assert spec["serviceAccountName"] == "skep"
        assert spec["automountServiceAccountToken"] is False
        assert spec["nodeSelector"] == {"pool": "control"}
        assert [each["key"] for each in spec["tolerations"]] == ["control"]


def test_keys_that_seal_secrets_come_from_the_secret_unless_they_are_set_otherwise(helm):
    def named(*options: str) -> list[dict]:
        parts = [d for d in documents(render(helm, *options)) if d["kind"] == "Deployment"]
        return [e for e in containers(parts[0])[0]["env"] if e["name"] == "SKEP_SECRETS_KEYS"]

    [env] = named("--set", "existingSecret=mine")
    assert env["valueFrom"]["secretKeyRef"] == {
        "name": "mine",
        "key": "secrets-keys",
        "optional": True,
    }
    other = ("--set", "extraEnv[0].name=SKEP_SECRETS_KEYS", "--set", "extraEnv[0].value=x")
    assert named(*other) == [{"name": "SKEP_SECRETS_KEYS", "value": "x"}]


def test_the_operator_scrapes_agents_apart_from_the_server(helm):
    asked = "metrics.enabled=true,metrics.token=0123456789abcdef,metrics.operator=true"
    found = documents(render(helm, "--set", f"{asked},agent.metricsPort=9471"))
    [monitor] = [d["spec"] for d in found if d["kind"] == "PodMonitor"]
    [agent] = [d["spec"]["template"] for d in found if d["kind"] == "DaemonSet"]
    assert monitor["selector"]["matchLabels"].items() <= agent["metadata"]["labels"].items()
    [endpoint] = monitor["podMetricsEndpoints"]
    [container] = agent["spec"]["containers"]
    assert container["ports"] == [
        {"name": endpoint["port"], "containerPort": 9471, "hostPort": 9471}
    ]
    # SkepProcessDown is about the job of the server alone, whose service finds pods by its port.
    [service] = [
        d for d in found if d["metadata"]["name"] == "hive-metrics" and d["kind"] == "Service"
    ]
    assert service["spec"]["ports"][0]["targetPort"] != endpoint["port"]
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "skep-agents"}]


def test_any_option_of_the_agent_can_be_given(helm):
    options = (
        "--set",
        "agent.args={--labels=rack=r1}",
        "--set",
        "agent.extraEnv[0].name=SKEP_REGISTRIES",
    )
    found = render(helm, *options, "--set", "agent.extraEnv[0].value=10.1.0.0/16")
    [agent] = [d for d in documents(found) if d["kind"] == "DaemonSet"]
    [container] = containers(agent)
    assert container["args"] == ["--labels=rack=r1"]
    assert {"name": "SKEP_REGISTRIES", "value": "10.1.0.0/16"} in container["env"]
    assert agent["spec"]["template"]["spec"]["priorityClassName"] == "system-node-critical"


def test_every_container_has_the_files_that_settings_name(helm):
    """The hook that migrates, too: it needs the authority of the database."""
    found = [d for d in documents(render(helm, *WHOLE)) if containers(d)]
    assert len(found) == 8
    for document in found:
        volumes = document["spec"]["template"]["spec"]["volumes"]
        [container] = containers(document)
        mount = {"name": "authority", "mountPath": "/etc/skep", "readOnly": True}
        assert {"name": "authority", "configMap": {"name": "authority"}} in volumes
        assert mount in container["volumeMounts"]


def test_a_variable_that_is_set_otherwise_is_there_once(helm):
    """Kubernetes merges a list of variables by their names."""
    given = {
        "extraEnv": (
            *("SKEP_TRUSTED_PROXIES", "SKEP_DATA_DIR", "SKEP_DATABASE_URL"),
            *("SKEP_METRICS_LISTEN", "SKEP_METRICS_TOKEN"),
        ),
        "agent.extraEnv": ("NVIDIA_DRIVER_CAPABILITIES", "SKEP_SERVER", "SKEP_NODE_ADDRESS"),
    }
    options = [
        f"--set=agent.metricsPort=9471,{part}[{number}].name={name},{part}[{number}].value=mine"
        for part, names in given.items()
        for number, name in enumerate(names)
    ]
    for container in [c for d in documents(render(helm, *WHOLE, *options)) for c in containers(d)]:
        names = [each["name"] for each in container["env"]]
        assert len(names) == len(set(names)), container["name"]
        part = "agent.extraEnv" if container["name"] == "agent" else "extraEnv"
        mine = {each["name"] for each in container["env"] if each.get("value") == "mine"}
        assert mine == set(given[part])


def test_the_join_token_of_the_notes_is_one_that_the_server_makes():
    notes = (CHART / "templates/NOTES.txt").read_text()
    [seconds] = re.findall(r'"expires_in_s": (\d+)', notes)
    assert int(seconds) <= MAX_JOIN_TTL.total_seconds()


def test_metrics_can_be_switched_on_by_an_upgrade(helm):
    """The hook before it finds the Secret as it was: no key may be missing there."""
    before, after = documents(render(helm)), documents(render(helm, *WHOLE))
    [known] = [d["stringData"].keys() for d in before if d["kind"] == "Secret"]
    [hook] = [d for d in after if d["kind"] == "Job"]
    [container] = containers(hook)
    named = [e["valueFrom"]["secretKeyRef"] for e in container["env"] if "valueFrom" in e]
    assert {one["key"] for one in named if not one.get("optional")} <= known


def test_a_rollout_waits_until_a_worker_has_started(helm):
    parts = [d for d in documents(render(helm)) if d["kind"] == "Deployment"]
    workers = [c for d in parts for c in containers(d) if c["name"] in WORKERS]
    assert len(workers) == len(WORKERS)
    for container in workers:
        [touched] = [e["value"] for e in container["env"] if e["name"] == "SKEP_LIVENESS_FILE"]
        command = container["startupProbe"]["exec"]["command"]
        assert command == ["sh", "-c", f"test -e {touched}"]


def test_the_operator_gets_the_rules_with_links_to_the_documentation(helm, tmp_path):
    asked = "metrics.enabled=true,metrics.token=0123456789abcdef,metrics.operator=true"
    found = {d["kind"]: d for d in documents(render(helm, "--set", asked))}
    rules = found["PrometheusRule"]["spec"]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps(rules))
    done = promtool("check", "rules", file)
    wanted = f"{len(alerts())} rules found"
    assert (done.returncode, wanted in done.stdout) == (0, True), done.stderr
    links = {rule["annotations"]["runbook_url"] for rule in rules["groups"][0]["rules"]}
    assert "https://skep.example.org/docs/run-books.html#skepnoagents" in links
    monitor = found["ServiceMonitor"]["spec"]
    service = next(
        d
        for d in documents(render(helm, "--set", asked))
        if d["kind"] == "Service" and d["metadata"]["name"] == "hive-metrics"
    )
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["authorization"]["credentials"]["key"] == "metrics-token"
