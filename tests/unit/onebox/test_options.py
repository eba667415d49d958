"""What `skep up` does with its options."""

from __future__ import annotations

import argparse
import ipaddress
import socket

import pytest

from skep_agent.config import interface_of
from skep_platform.onebox import options
from skep_platform.onebox.options import PORTS, SIMULATED_GPUS, Options
from skep_platform.onebox.programs import node_address


def parsed(*arguments: str) -> Options:
    parser = argparse.ArgumentParser()
    options.add_arguments(parser)
    return options.from_arguments(parser.parse_args(arguments))


@pytest.mark.parametrize(
    ("driver", "arguments", "gpus"),
    [
        (True, [], None),
        (False, [], SIMULATED_GPUS),
        (True, ["--gpus", "4"], 4),
        (True, ["--nodes", "2"], SIMULATED_GPUS),
        (True, ["--runtime", "mock"], SIMULATED_GPUS),
        (False, ["--gpus", "0"], 0),
    ],
    ids=["real", "no driver", "asked for", "two nodes cannot share", "mock", "CPU-only node"],
)
def test_gpus_are_simulated_where_real_ones_cannot_be_meant(monkeypatch, driver, arguments, gpus):
    monkeypatch.setattr(options, "nvidia_driver", lambda: driver)
    assert parsed(*arguments).gpus == gpus


@pytest.mark.parametrize("nodes", [1, 2, 3, 16, 500])
def test_nodes_of_one_machine_hand_out_different_ports(nodes):
    ranges = [Options(nodes=nodes).port_range(n) for n in range(nodes)]
    given = [port for first, last in ranges for port in range(first, last + 1)]
    assert len(given) == len(set(given))
    assert set(given) <= set(PORTS)
    assert all(last >= first for first, last in ranges)


def test_without_agents_there_are_no_nodes():
    assert parsed("--no-agents", "--nodes", "3").node_names() == []


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8470"),
        ("0.0.0.0", "http://127.0.0.1:8470"),
        ("10.1.2.3", "http://10.1.2.3:8470"),
        ("::1", "http://[::1]:8470"),
    ],
)
def test_the_address_for_this_machine_follows_from_where_it_listens(host, url):
    assert Options(host=host).url == url


def test_a_box_open_to_all_knows_the_machines_own_names_and_no_others():
    assert Options(host="127.0.0.1").names() == []
    names = Options(host="0.0.0.0").names()
    assert socket.gethostname() in names
    assert "*" not in names


def test_finding_j9_each_node_of_one_machine_has_a_loopback_address_of_its_own():
    addresses = [ipaddress.ip_address(node_address(number)) for number in range(2000)]
    assert len(set(addresses)) == 2000
    assert all(address.is_loopback for address in addresses)
    assert ipaddress.ip_address("127.0.0.1") not in addresses  # the name of that is "localhost"
    assert interface_of(str(addresses[7])) == interface_of("127.0.0.1")
