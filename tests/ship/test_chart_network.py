"""The NetworkPolicies of the Helm chart: what is needed is allowed, and nothing else."""

from __future__ import annotations

import subprocess

import pytest
from tests.ship.test_chart import WHOLE, containers, documents, render


class Network:
    """Evaluates NetworkPolicies as Kubernetes does: a pod that a policy selects gets only what the
    policies allow, and a connection must be allowed at both of its ends."""

    def __init__(self, policies: list[dict]) -> None:
        self.policies = [p["spec"] for p in policies if p["kind"] == "NetworkPolicy"]

    def allows(self, source: dict, target: dict, port: int | str) -> bool:
        """`source` and `target` are {"labels", "namespace"}; labels are None outside Kubernetes."""
        ends = [("Egress", source, target, "to"), ("Ingress", target, source, "from")]
        return all(self._end(kind, at, other, key, port) for kind, at, other, key in ends)

    def _end(self, kind: str, at: dict, other: dict, key: str, port: int | str) -> bool:
        if at["labels"] is None or at["namespace"] != {"name": "skep"}:
            return True
        chosen = [
            p
            for p in self.policies
            if kind in p["policyTypes"] and _selects(p["podSelector"], at["labels"])
        ]
        rules = [rule for p in chosen for rule in p.get(kind.lower()) or []]
        return not chosen or any(_matches(rule, key, other, port) for rule in rules)


def _matches(rule: dict, key: str, other: dict, port: int | str) -> bool:
    if "ports" in rule and port not in [p["port"] for p in rule["ports"]]:
        return False
    return key not in rule or any(_is_peer(peer, other) for peer in rule[key])


def _is_peer(peer: dict, other: dict) -> bool:
    if "ipBlock" in peer:
        return other["labels"] is None and peer["ipBlock"]["cidr"] in ("0.0.0.0/0", other["cidr"])
    if other["labels"] is None:
        return False
    namespace = (
        _selects(peer["namespaceSelector"], other["namespace"])
        if "namespaceSelector" in peer
        else other["namespace"] == {"name": "skep"}
    )
    return namespace and _selects(peer.get("podSelector", {}), other["labels"])


def _selects(selector: dict, labels: dict) -> bool:
    exact = selector.get("matchLabels") or {}
    return all(labels.get(k) == v for k, v in exact.items()) and all(
        labels.get(e["key"]) in e["values"] for e in selector.get("matchExpressions") or []
    )


def pod(component: str) -> dict:
    labels = {
        "app.kubernetes.io/name": "skep",
        "app.kubernetes.io/instance": "hive",
        "app.kubernetes.io/component": component,
    }
    return {"labels": labels, "namespace": {"name": "skep"}}


def pods(found: list[dict]) -> dict[str, dict]:
    """Return the pods of the server by their component, as their templates label them."""
    labels = [
        d["spec"]["template"]["metadata"]["labels"]
        for d in found
        if d["kind"] in ("Deployment", "Job")
    ]
    namespace = {"name": "skep"}
    component = "app.kubernetes.io/component"
    return {of[component]: {"labels": of, "namespace": namespace} for of in labels}


POSTGRES = {"labels": {"app": "postgres"}, "namespace": {"name": "skep"}}
VALKEY = {"labels": {"app": "valkey"}, "namespace": {"name": "skep"}}
INGRESS = {"labels": {}, "namespace": {"kubernetes.io/metadata.name": "ingress-nginx"}}
DNS = {"labels": {}, "namespace": {"kubernetes.io/metadata.name": "kube-system"}}
PROMETHEUS = {"labels": {}, "namespace": {"kubernetes.io/metadata.name": "monitoring"}}
NEIGHBOUR = {"labels": {"app": "other"}, "namespace": {"name": "skep"}}
STRANGER = {"labels": {"app": "other"}, "namespace": {"name": "other"}}
INTERNET = {"labels": None, "namespace": {}, "cidr": "203.0.113.7/32"}
SERVER = ["web", "gateway", "scheduler", "worker", "beat", "migrate"]


def test_finding_s5_network_policies_deny_all_but_what_the_server_needs(helm):
    network = Network(documents(render(helm)))
    for component in SERVER:
        assert network.allows(pod(component), POSTGRES, 5432), component
        assert network.allows(pod(component), VALKEY, 6379), component
        assert network.allows(pod(component), DNS, 53), component
        assert not network.allows(pod(component), INTERNET, 443), component
        assert not network.allows(pod(component), STRANGER, 80), component
    for target in ("web", "gateway"):
        assert network.allows(INGRESS, pod(target), "http")
        assert not network.allows(NEIGHBOUR, pod(target), "http")
        assert not network.allows(STRANGER, pod(target), "http")
    assert network.allows(pod("web"), pod("gateway"), "http")
    assert not network.allows(pod("worker"), pod("gateway"), "http")
    for other in (NEIGHBOUR, STRANGER, INGRESS):
        assert not network.allows(other, POSTGRES, 5432)
        assert not network.allows(other, VALKEY, 6379)
        assert not network.allows(other, pod("scheduler"), 80)


def test_of_all_connections_those_that_are_needed_are_allowed_and_no_other(helm):
    found = documents(render(helm, *WHOLE))
    network, ours = Network(found), pods(found)
    assert ours.keys() == {*SERVER, "apps"}
    others = {"postgres": POSTGRES, "valkey": VALKEY, "dns": DNS, "ingress": INGRESS}
    others |= {"prometheus": PROMETHEUS, "neighbour": NEIGHBOUR, "stranger": STRANGER}
    everyone = ours | others | {"internet": INTERNET}
    needed = {(pod, *to) for pod in ours for to in (("postgres", 5432), ("valkey", 6379))}
    needed |= {(pod, "dns", 53) for pod in ours}
    needed |= {("ingress", target, "http") for target in ("web", "gateway", "apps")}
    needed |= {("web", "gateway", "http")}
    needed |= {("prometheus", pod, "metrics") for pod in ours if pod != "migrate"}
    allowed = {
        (source, target, port)
        for source in everyone
        for target in everyone
        for port in ("http", "metrics", 53, 80, 443, 5432, 6379)
        if source != target and (source in ours or target in {*ours, "postgres", "valkey"})
        if network.allows(everyone[source], everyone[target], port)
    }
    assert allowed == needed


def test_a_port_that_a_policy_names_is_one_of_the_pods_that_it_opens(helm):
    found = documents(render(helm, *WHOLE))
    ports = {
        d["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: {
            port["name"] for c in containers(d) for port in c.get("ports", ())
        }
        for d in found
        if d["kind"] == "Deployment"
    }
    opened = {
        (name, port["port"])
        for policy in Network(found).policies
        for name, one in pods(found).items()
        if _selects(policy["podSelector"], one["labels"])
        for rule in policy.get("ingress") or ()
        for port in rule["ports"]
    }
    assert ("web", "http") in opened
    assert {name for name, port in opened if port not in ports[name]} == set()


def test_sentinels_and_replicas_are_reached(helm):
    sentinel = (
        "--set=redisUrl=sentinel://:x@redis:26379/0?master=skep",
        "--set=networkPolicy.redis.extraPorts={26379}",
    )
    network = Network(documents(render(helm, *sentinel)))
    for component in SERVER:
        assert network.allows(pod(component), VALKEY, 26379), component
        assert not network.allows(pod(component), POSTGRES, 26379), component
    assert network.allows(VALKEY, VALKEY, 6379)  # another replica of it
    assert network.allows(POSTGRES, POSTGRES, 5432)
    assert not network.allows(VALKEY, POSTGRES, 5432)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        render(helm, *sentinel[:1])
    assert "networkPolicy.redis.extraPorts" in refused.value.stderr


def test_with_an_object_store_the_server_reaches_its_port_and_no_other(helm):
    network = Network(documents(render(helm, "--set", "logs.store=s3://logs/skep")))
    assert network.allows(pod("web"), INTERNET, 443)
    assert not network.allows(pod("web"), INTERNET, 80)


def test_services_of_type_load_balancer_take_clients_from_anywhere(helm):
    found = documents(render(helm, "--set", "networkPolicy.clients=null"))
    network = Network(found)
    assert network.allows(INTERNET, pod("web"), "http")
    assert network.allows(INTERNET, pod("gateway"), "http")
    assert not network.allows(INTERNET, POSTGRES, 5432)
