"""A whole Skep with a real engine for the pages, and a visitor who drives Chromium."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import httpx
import pytest
from tests.support.docker_images import import_busybox
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, oidc_provider
from tests.support.playwright import play
from tests.support.ports import free_port
from tests.support.receivers import mail_server
from tests.support.stack import Stack, stack

VISITOR = {"username": "mei", "password": "many-busy-bees", "is_admin": True}


@pytest.fixture(scope="session")
def storage_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of which the agents may mount folders into jobs, and the server shows files."""
    root = tmp_path_factory.mktemp("storages")
    (root / "files").mkdir()
    return root


@pytest.fixture(scope="session")
def newest_mail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the text of the newest e-mail that Skep has sent."""
    return tmp_path_factory.mktemp("mails") / "newest.txt"


@pytest.fixture(scope="session")
def port() -> int:
    return free_port()


@pytest.fixture(scope="session")
def issuer(port: int) -> Iterator[str]:
    """The identity provider of single sign-on, which runs."""
    with oidc_provider(f"http://127.0.0.1:{port}/api/v1/auth/sso/callback") as found:
        yield found


@pytest.fixture(scope="session")
def skep(storage_root: Path, newest_mail: Path, port: int, issuer: str) -> Iterator[Stack]:
    timing = {"SKEP_HEARTBEAT_S": "1", "SKEP_JOB_ARCHIVE_DAYS": "60"}
    timing |= dict.fromkeys(("SKEP_STORAGE_ROOTS", "SKEP_STORAGE_FILES"), str(storage_root))
    with (
        mail_server(newest_mail) as box,
        stack(
            *("--nodes", "2", "--gpus", "8"), port=port, **timing, **_mail(box.port), **_sso(issuer)
        ) as running,
    ):
        headers = {"Authorization": f"Bearer {running.token}"}
        with httpx.Client(base_url=f"{running.url}/api/v1", headers=headers, timeout=60) as api:
            api.post("/users", json=VISITOR).raise_for_status()
            member = {"role": "member"}
            api.put("/virtual-clusters/default/members/mei", json=member).raise_for_status()
        yield running


def _mail(port: int) -> dict[str, str]:
    return {"SKEP_SMTP_HOST": "127.0.0.1", "SKEP_SMTP_PORT": str(port), "SKEP_SMTP_TLS": "none"}


def _sso(issuer: str) -> dict[str, str]:
    return {
        "SKEP_OIDC_ISSUER": issuer,
        "SKEP_OIDC_CLIENT_ID": CLIENT_ID,
        "SKEP_OIDC_CLIENT_SECRET": CLIENT_SECRET,
        "SKEP_OIDC_NAME": "Example ID",
    }


@pytest.fixture(scope="session")
def visit(skep: Stack) -> Callable[..., None]:
    """Run a scenario of `scenarios/` with Playwright; its report is the message of a failure."""
    environment = {
        "SKEP_URL": skep.url,
        "SKEP_USER": VISITOR["username"],
        "SKEP_PASSWORD": VISITOR["password"],
        "SKEP_IMAGE": import_busybox(docker.from_env(), "skep-test/browser:1"),
    }

    def once(scenario: str, **more: str) -> str:
        report = play(scenario, **environment | more)
        if report:
            _stop_jobs(skep)
        return report

    def run(scenario: str, **more: str) -> None:
        if first := once(scenario, **more):
            # A browser beside a whole cluster on two cores: one more try, and a warning that says
            # what to look into.
            second = once(scenario, **more)
            assert not second, f"{first}\n\nand again:\n{second}"
            warnings.warn(f"It passed at the second try only. {first}", stacklevel=2)

    return run


def _stop_jobs(skep: Stack) -> None:
    """Stop what a scenario that failed left behind: the next ones need its GPUs."""
    with skep.api() as api:
        active = {"state": "WAITING,RUNNING", "limit": 100}
        for job in api.get("/jobs", params=active).json()["results"]:
            api.post(f"/jobs/{job['id']}/stop")
