"""What a node lays for the network of a gang, and what it refuses to."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.agent_specs import spec

from skep_agent.containers import RuntimeFailure
from skep_agent.network import names
from skep_agent.network.plan import plan_of
from skep_agent.network.rules import CLOSED, PRIVATE, Egress, script
from skep_agent.protocol import GangNetwork, GangNode, NetworkPolicy

GANG = GangNetwork(
    vni=77,
    subnet="100.64.8.0/29",
    nodes=[
        GangNode(name="a", address="10.0.0.1", gateway="100.64.8.3", tasks={"w-0": "100.64.8.1"}),
        GangNode(name="b", address="10.0.0.2", gateway="100.64.8.4", tasks={"w-1": "100.64.8.2"}),
    ],
)


def planned(node: str = "a", **fields: Any):
    return plan_of(spec(**{"network": "gang", "gang": GANG, "hostname": "w-0"} | fields), node)


def changed(**fields: Any) -> GangNetwork:
    return GANG.model_copy(update=fields)


def node_changed(**fields: Any) -> GangNetwork:
    return changed(nodes=[GANG.nodes[0].model_copy(update=fields), GANG.nodes[1]])


def test_a_node_lays_its_own_part():
    plan = planned()
    assert (plan.task, plan.here.gateway, plan.mac) == (
        *("100.64.8.1", "100.64.8.3"),
        "02:42:64:40:08:01",
    )
    assert plan.others == {"100.64.8.2": "10.0.0.2"}
    assert plan.hosts == {"w-0": "100.64.8.1", "w-1": "100.64.8.2"}


REFUSED: dict[str, Any] = {
    "no network": {"gang": None},
    "another node": {"node": "c"},
    "a task of another node": {"hostname": "w-1"},
    "a public subnet": {"gang": changed(subnet="8.8.8.0/29")},
    "all of IPv4": {"gang": changed(subnet="0.0.0.0/0")},
    "a subnet beyond the private one": {"gang": changed(subnet="172.0.0.0/8")},
    "no subnet": {"gang": changed(subnet="--driver=host")},
    "a network identifier of more than 24 bits": {"gang": changed(vni=2**24)},
    "no network identifier": {"gang": changed(vni=0)},
    "an address outside": {"gang": node_changed(tasks={"w-0": "10.0.0.9"})},
    "the address of the subnet": {"gang": node_changed(tasks={"w-0": "100.64.8.0"})},
    "an address twice": {"gang": node_changed(tasks={"w-0": "100.64.8.2"})},
    "a gateway outside": {"gang": node_changed(gateway="10.0.0.1")},
    "a host name that is more": {"gang": node_changed(tasks={"w-0 evil": "100.64.8.1"})},
    "a node's address that is none": {"gang": node_changed(address="example.org")},
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_network_is_refused(case):
    with pytest.raises(RuntimeFailure) as refused:
        planned(**REFUSED[case])
    assert refused.value.code == "spec_refused"


@given(st.text(max_size=40), st.text(max_size=40), st.integers())
def test_whatever_a_server_says_is_refused_or_lies_in_a_private_subnet(subnet, address, vni):
    gang = node_changed(tasks={"w-0": address})
    refused, plan = None, None
    try:
        plan = planned(gang=gang.model_copy(update={"vni": vni, "subnet": subnet}))
    except RuntimeFailure as failure:
        refused = failure
    assert plan is None or any(plan.subnet.subnet_of(private) for private in PRIVATE)
    assert plan is None or IPv4Address(plan.task) in plan.subnet
    assert refused is None or refused.code == "spec_refused"


@given(cluster=st.text(), key=st.text(), kind=st.sampled_from("ijgv"))
def test_names_of_devices_fit_the_kernel_and_begin_as_the_rules_expect(cluster, key, kind):
    name = names.interface(cluster, kind, key)
    assert len(name) <= 15
    assert name.isalnum()
    assert name.startswith(names.prefix(cluster) + kind)


NETWORKS = st.ip_addresses(v=4).map(str) | st.builds(
    lambda address, bits: str(ip_network((int(address) >> bits << bits, 32 - bits))),
    st.ip_addresses(v=4),
    st.integers(0, 24),
)
PORTS = st.builds("{}:{}".format, st.ip_addresses(v=4), st.integers(1, 65535))


@given(
    denied=st.lists(NETWORKS, max_size=5),
    allowed=st.lists(NETWORKS | PORTS, max_size=5),
)
def test_finding_s12_no_policy_changes_the_order_in_which_rules_are_tried(denied, allowed):
    """Rules are tried in their order: link-local, then the exceptions with a port, nodes, the
    allow list, private networks."""
    egress = Egress.of(NetworkPolicy(denied=denied, allowed=allowed), (), ())
    lines = [line.strip() for line in script("c", egress, ()).splitlines()]
    egress_rules = [line for line in lines if line.startswith(("ip daddr @", "meta l4proto"))]
    order = ["@resolvers", "@closed", "@allowed_ports", "@denied", "@allowed accept", "@private"]
    forward = egress_rules[-6:]
    assert [word in rule for word, rule in zip(order, forward, strict=True)] == [True] * 6
    assert all(str(network) in "\n".join(lines) for network in CLOSED)


def test_finding_s12_the_metadata_address_is_closed_for_good():
    assert any(IPv4Address("169.254.169.254") in network for network in CLOSED)
