"""The compose files: complete, without a default secret, and read by Compose itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import typer
from ruamel.yaml import YAML

from skep_agent import main
from skep_platform.env_settings import proxy_list

ROOT = Path(__file__).resolve().parents[2]
SECRETS = {
    "SKEP_SECRET_KEY": "one",
    "POSTGRES_PASSWORD": "two",
    "REDIS_PASSWORD": "three",
    "SKEP_PUBLIC_URL": "https://skep.example.org",
}
BARE = {"PATH": os.environ["PATH"]}


def compose(*files: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    named = [f"--file={ROOT / file}" for file in files]
    command = ["docker-compose", *named, "--project-directory", str(ROOT), "config"]
    return subprocess.run(command, env=BARE | env, capture_output=True, text=True, cwd=ROOT)


@pytest.fixture(scope="module")
def services() -> dict[str, dict]:
    done = compose("docker-compose.yml", env=SECRETS)
    assert done.returncode == 0, done.stderr
    return YAML(typ="safe", pure=True).load(done.stdout)["services"]


def test_every_part_is_there(services):
    assert services.keys() == {
        *("postgres", "redis", "migrate", "web", "gateway", "apps"),
        *("scheduler", "worker", "beat", "agent"),
    }


def test_the_scheduler_queue_is_consumed_one_at_a_time(services):
    command = services["scheduler"]["command"]
    assert command[command.index("-Q") + 1] == "scheduler"
    assert command[command.index("-P") + 1] == "solo"


def test_a_worker_is_one_process_so_that_its_metrics_are_whole(services):
    command = services["worker"]["command"]
    assert command[command.index("-P") + 1] == "threads"


def test_no_part_fills_the_disk_with_what_it_logs(services):
    for name, service in services.items():
        assert service["logging"]["options"] == {"max-size": "50m", "max-file": "4"}, name


def test_metrics_are_served_when_asked_for_and_never_published(services):
    assert not services["web"]["environment"]["SKEP_METRICS_LISTEN"]
    asked = {"SKEP_METRICS_LISTEN": ":9470", "SKEP_METRICS_TOKEN": "x" * 20}
    done = compose("docker-compose.yml", env=SECRETS | asked)
    found = YAML(typ="safe", pure=True).load(done.stdout)["services"]
    for name in ("web", "gateway", "apps", "scheduler", "worker", "beat"):
        assert asked.items() <= found[name]["environment"].items()
        assert not any("9470" in str(port) for port in found[name].get("ports", []))


def test_any_setting_reaches_the_servers_and_no_other_part(tmp_path):
    file = tmp_path / "settings.env"
    file.write_text("SKEP_OIDC_ISSUER=https://sso.example.org\nSKEP_SECRET_KEY=another\n")
    done = compose("docker-compose.yml", env=SECRETS | {"SKEP_SETTINGS_FILE": str(file)})
    found = YAML(typ="safe", pure=True).load(done.stdout)["services"]
    for name in ("migrate", "web", "gateway", "apps", "scheduler", "worker", "beat"):
        assert found[name]["environment"]["SKEP_OIDC_ISSUER"] == "https://sso.example.org"
        assert found[name]["environment"]["SKEP_SECRET_KEY"] == "one", "that of .env holds"
    for name in ("postgres", "redis", "agent"):
        assert "SKEP_OIDC_ISSUER" not in found[name].get("environment", {})


def test_each_server_has_the_files_that_settings_name(services):
    for name in ("migrate", "web", "gateway", "apps", "scheduler", "worker", "beat"):
        assert f"{ROOT}/deploy/files:/etc/skep:ro" in services[name]["volumes"], name


def test_nothing_starts_before_the_tables_are_there(services):
    for name in ("web", "gateway", "apps", "scheduler", "worker", "beat"):
        condition = services[name]["depends_on"]["migrate"]["condition"]
        assert condition == "service_completed_successfully"


def test_only_what_a_proxy_reaches_is_published_and_only_on_loopback(services):
    published = {name: s["ports"] for name, s in services.items() if s.get("ports")}
    assert published.keys() == {"web", "gateway", "apps"}
    assert all("127.0.0.1" in str(ports) for ports in published.values())


def test_finding_s1_agents_speak_to_a_process_of_their_own(services):
    """The commands run, too: in `tests/integration/onebox`, by the same names."""
    assert "skep_platform.gateway.asgi:application" in services["gateway"]["command"]
    assert "8471" in services["web"]["environment"]["SKEP_GATEWAY_BACKEND"]


def test_failed_logins_are_counted_for_who_is_behind_the_reverse_proxy(services):
    found = services["web"]["environment"]["SKEP_TRUSTED_PROXIES"]
    assert proxy_list(found) == ["172.16.0.0/12", "192.168.0.0/16"]


@pytest.mark.parametrize("missing", SECRETS)
def test_a_missing_secret_stops_it_with_its_name(missing):
    done = compose("docker-compose.yml", env={k: v for k, v in SECRETS.items() if k != missing})
    assert done.returncode != 0
    assert missing in done.stderr


def test_a_node_needs_only_the_address_and_a_join_token():
    env = {"SKEP_PUBLIC_URL": "https://skep.example.org", "SKEP_JOIN_TOKEN": "once"}
    done = compose("deploy/agent.compose.yml", env=env)
    assert done.returncode == 0, done.stderr


def test_options_of_an_agent_reach_it():
    env = {"SKEP_PUBLIC_URL": "https://skep.example.org", "SKEP_REGISTRIES": "10.1.0.0/16"}
    done = compose("deploy/agent.compose.yml", env=env)
    agent = YAML(typ="safe", pure=True).load(done.stdout)["services"]["agent"]
    assert agent["environment"]["SKEP_REGISTRIES"] == "10.1.0.0/16"
    # Without a value an option has its default.
    assert agent["environment"]["SKEP_AGENT_METRICS"] == ""


def test_each_option_of_an_agent_has_a_variable_and_compose_passes_it_on():
    """The unit of systemd and the chart pass on any variable."""
    command = typer.main.get_command(main.app).commands["run"]
    variables = {option.name: option.envvar for option in command.params}
    simulated = {"runtime", "gpus", "gpu_model", "gpu_memory_mb"}
    assert {name for name, variable in variables.items() if not variable} == simulated
    files = ("deploy/agent.compose.yml", "deploy/storages.compose.yml")
    done = compose(*files, env={"SKEP_PUBLIC_URL": "https://skep.example.org"})
    agent = YAML(typ="safe", pure=True).load(done.stdout)["services"]["agent"]
    passed = {*agent["environment"], "SKEP_AGENT_STATE"}  # whose place the image knows
    assert set(filter(None, variables.values())) <= passed


def test_each_part_has_what_the_chart_gives_it_too(services):
    for name, service in services.items():
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["restart"] == ("no" if name == "migrate" else "unless-stopped"), name
    for name in ("migrate", "web", "gateway", "apps", "scheduler", "worker", "beat"):
        service = services[name]
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        assert service["tmpfs"] == ["/tmp"], name
        assert service["mem_limit"], name
        if name != "migrate":
            assert service["healthcheck"]["test"], name
            assert service["stop_grace_period"] in ("1m", "1m0s"), name
    agent = services["agent"]
    assert (agent["cap_drop"], set(agent["cap_add"])) == (
        ["ALL"],
        {"DAC_OVERRIDE", "NET_ADMIN", "KILL"},
    )


def test_a_node_with_storages_may_mount_and_shares_its_mounts():
    env = {"SKEP_PUBLIC_URL": "https://skep.example.org", "SKEP_STORAGE_ROOT": "/srv/shared"}
    done = compose("deploy/agent.compose.yml", "deploy/storages.compose.yml", env=env)
    assert done.returncode == 0, done.stderr
    agent = YAML(typ="safe", pure=True).load(done.stdout)["services"]["agent"]
    assert {"NET_ADMIN", "SYS_ADMIN"} <= set(agent["cap_add"])
    assert agent["environment"]["SKEP_STORAGE_ROOTS"] == "/srv/shared"
    assert "/run/skep-agent:/run/skep-agent:rshared" in agent["volumes"]
    assert "/srv/shared:/srv/shared:rslave" in agent["volumes"]


def test_the_images_exist_as_targets_of_the_dockerfile(services):
    stages = {
        line.split()[-1]
        for line in (ROOT / "Dockerfile").read_text().splitlines()
        if line.startswith("FROM ")
    }
    assert {s["build"]["target"] for s in services.values() if "build" in s} <= stages
