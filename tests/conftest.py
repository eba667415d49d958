"""Engines and Django for every test; components of the machine by marker."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from tests.support import components, engines

# As `skep simulate` has it, and before a module loads numpy: threads only wait for each other on
# machines that are busy otherwise.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# How long an example takes says more of the machine than of the code. In CI the examples are few
# and the same each time: a commit is judged there, new examples are looked for everywhere else, and
# by `make test-long` in any case.
hypothesis_settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.register_profile(
    "a commit", hypothesis_settings.get_profile("any machine"), derandomize=True, max_examples=30
)
hypothesis_settings.load_profile("a commit" if components.must_be_complete() else "any machine")

# Before any other conftest or test module imports a model, and before pytest-django looks.
engines.prepare_environment()
os.environ["DJANGO_SETTINGS_MODULE"] = "skep_platform.settings"

import django  # noqa: E402
from django.conf import settings  # noqa: E402
from django.contrib.auth.hashers import PBKDF2PasswordHasher  # noqa: E402

from skep_platform import engine_urls  # noqa: E402

# pytest-django loads the settings before this file where the variable was set, as in every xdist
# worker: these then still name the controller's Valkey database and folder.
settings.SKEP_REDIS_URL = os.environ["SKEP_REDIS_URL"]
settings.CELERY_BROKER_URL = engine_urls.broker_url(settings.SKEP_REDIS_URL)
settings.CACHES["default"]["LOCATION"] = os.environ["SKEP_REDIS_URL"]
settings.CHANNEL_LAYERS["default"]["CONFIG"]["hosts"] = [os.environ["SKEP_REDIS_URL"]]
settings.SKEP_DATA_DIR = Path(os.environ["SKEP_DATA_DIR"])
settings.STORAGES["logs"]["OPTIONS"]["location"] = str(settings.SKEP_DATA_DIR / "logs")
settings.STORAGES["files"]["OPTIONS"]["location"] = str(settings.SKEP_DATA_DIR / "files")
# Channel names are global on a Valkey server, whatever the database.
settings.CHANNEL_LAYERS["default"]["CONFIG"]["prefix"] = f"skep-test-{os.getpid()}"
django.setup()

from tests.support import database_flush  # noqa: E402

database_flush.install()

# A million rounds a password take longer than most tests. Servers that tests start have them.
PBKDF2PasswordHasher.iterations = 1_000


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A missing component of the machine skips a test, and fails it in CI."""
    for marker in {m.name for m in item.iter_markers()}:
        if reason := components.missing(marker):
            (pytest.fail if components.must_be_complete() else pytest.skip)(reason)


@pytest.fixture(autouse=True)
def _clean_hints(request: pytest.FixtureRequest) -> Iterator[None]:
    """Valkey is empty at the start of each test that may use it; channel layers do not outlive
    the event loop they belong to."""
    if request.node.get_closest_marker("django_db") or "db" in request.fixturenames:
        from skep_platform.core.notifications import valkey

        valkey().flushdb()
    yield
    if layers := sys.modules.get("channels.layers"):
        layers.channel_layers.backends.clear()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """A test without a database may have opened the pool of connections: it is of the database that
    is there before pytest-django makes one for the tests."""
    from django.db import connection

    connection.close_pool()


@pytest.fixture(autouse=True)
def _own_logs() -> Iterator[None]:
    """Commands that set up the logs of their whole process write to a stream that ends with the
    test: what runs after them would fail at its first warning."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
