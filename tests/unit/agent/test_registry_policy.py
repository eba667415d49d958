"""Which registries are asked for images: names, addresses in any form, what names resolve to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_agent.protocol import ImageSpec
from skep_agent.registry_policy import RegistryPolicy, RegistryRefused, registry_of
from skep_agent.runtimes.docker_engine import EngineError
from skep_agent.runtimes.docker_pull import pull_failure

DEFAULT = RegistryPolicy.parsed("")
FORBIDDEN = [
    "127.0.0.1:5000", "127.1:80", "0x7f.1:80", "2130706433:80", "0177.0.0.1:80", "localhost",
    "localhost:6379", "LOCALHOST:1", "169.254.169.254", "10.0.0.1:2375", "192.168.1.1:443",
    "172.16.0.1", "100.64.0.1:1", "0.0.0.0:1", "224.0.0.1:1", "metadata.google.internal:80",
    "printer.local", "x.localhost:1", "127.0.0.1.:1",
]  # fmt: skip


def resolving(*addresses: str):
    async def resolve(host: str) -> list[str]:
        return list(addresses)

    return resolve


@pytest.mark.parametrize("registry", FORBIDDEN)
def test_finding_s9_private_addresses_are_refused_in_any_form(registry):
    with pytest.raises(RegistryRefused) as refused:
        DEFAULT.check_name(f"{registry}/team/image:1")
    assert "SKEP_REGISTRIES" in str(refused.value)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1",
                                     "fe80::1%eth0", "fd00::1", "::ffff:127.0.0.1"])  # fmt: skip
async def test_finding_s9_what_a_name_resolves_to_is_looked_at(address):
    reference = "registry.example.org/team/image:1"
    DEFAULT.check_name(reference)
    with pytest.raises(RegistryRefused):
        await DEFAULT.check(reference, resolving("93.184.216.34", address))
    await DEFAULT.check(reference, resolving("93.184.216.34", "2606:2800:220:1::1"))


async def test_finding_s9_listed_registries_are_asked_wherever_they_are():
    policy = RegistryPolicy.parsed(
        "public, harbor.corp, *.lab.example, 127.0.0.1:5000, 10.1.0.0/16"
    )
    for reference in ("harbor.corp:5000/x", "a.lab.example/x", "127.0.0.1:5000/x", "10.1.2.3:80/x"):
        await policy.check(reference, resolving("10.9.9.9"))
    await policy.check("registry.corp/x", resolving("10.1.7.7"))
    for reference in ("127.0.0.1:5001/x", "10.2.0.1:80/x"):
        with pytest.raises(RegistryRefused):
            await policy.check(reference)
    with pytest.raises(RegistryRefused):
        await policy.check("registry.corp/x", resolving("10.2.7.7"))


def test_finding_s9_without_public_only_what_is_listed_is_asked():
    policy = RegistryPolicy.parsed("harbor.corp")
    policy.check_name("harbor.corp/x")
    for reference in ("ubuntu:24.04", "ghcr.io/x/y", "8.8.8.8:80/x", "team/image"):
        with pytest.raises(RegistryRefused):
            policy.check_name(reference)
    RegistryPolicy.parsed("docker.io").check_name("pytorch/pytorch:2.9.0")


def test_the_registry_of_a_reference_is_the_one_that_an_engine_asks():
    assert registry_of("ubuntu") == registry_of("team/image:1") == "docker.io"
    assert registry_of("localhost/x") == "localhost"
    assert registry_of("ghcr.io/x/y@sha256:" + "a" * 64) == "ghcr.io"
    assert registry_of("host:5000/x:1") == "host:5000"


@given(st.ip_addresses(), st.integers(1, 65535))
def test_finding_s9_no_address_but_global_ones_pass(address, port):
    host = f"[{address}]" if address.version == 6 else str(address)
    inner = getattr(address, "ipv4_mapped", None) or address
    if inner.is_global and not inner.is_multicast:
        DEFAULT.check_name(f"{host}:{port}/x")
    else:
        with pytest.raises(RegistryRefused):
            DEFAULT.check_name(f"{host}:{port}/x")


def test_finding_s9_the_body_of_an_answer_is_not_in_a_message():
    said = 'error parsing HTTP 403 response body: invalid character: "SECRET of the service"'
    failure = pull_failure(EngineError(500, said), ImageSpec(reference="registry.example/x"))
    assert "SECRET" not in failure.message
    assert "403 response body (not shown)" in failure.message
