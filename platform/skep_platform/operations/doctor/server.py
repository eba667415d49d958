"""The doctor on the server's own processes: their settings, versions and clocks."""

from __future__ import annotations

import os
import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import django
from django.conf import settings

from skep_platform import __version__
from skep_platform.cluster.models import Node, NodeState
from skep_platform.core import processes
from skep_platform.core.processes import Process
from skep_platform.env_settings import QUEUES, is_loopback
from skep_platform.operations import readings
from skep_platform.operations.doctor.findings import Finding, error, names, note, ok, warning

LIKE = 0.9  # similarity from which on an unknown setting is taken for a misspelt one
CLOCK_S, CLOCK_BAD_S = 2.0, 30.0


def check_settings() -> Iterator[Finding]:
    """Settings that are allowed, and are not what one runs a cluster of others with."""
    yield ok(f"Public address {settings.SKEP_PUBLIC_URL}.")
    for name, meant in misspelt(os.environ).items():
        message = f"{name} is no setting of Skep and has no effect."
        yield warning("setting_unknown", message, f"Did you mean {meant}?", setting=name)
    public = urlsplit(settings.SKEP_PUBLIC_URL)
    beyond = not is_loopback(public.hostname or "")
    if beyond and public.scheme == "http":
        message = "Passwords, tokens and credentials of nodes cross the network unencrypted."
        action = "Put a reverse proxy with TLS in front, and set SKEP_PUBLIC_URL to https://…"
        yield warning("no_tls", message, action)
    if beyond and not settings.SKEP_REQUIRE_MFA:
        message = "Administrators log in with a password alone."
        yield note("mfa_optional", message, "Set SKEP_REQUIRE_MFA=admins.")
    if not settings.SKEP_SECRETS_KEYS:
        message = "Secrets are sealed with a key that is made from SKEP_SECRET_KEY."
        action = (
            "Set SKEP_SECRETS_KEYS, so that SKEP_SECRET_KEY can be changed without losing them."
        )
        yield note("secrets_key_derived", message, action)
    yield from _check_archive()
    if not settings.EMAIL_HOST:
        message = "No e-mail is sent: neither notifications, nor alerts, nor password links."
        yield note("no_mail", message, "Set SKEP_SMTP_HOST.")


def _check_archive() -> Iterator[Finding]:
    """Settings of the archive of jobs with which nothing is archived, or deleted."""
    if settings.SKEP_JOB_ARCHIVE_DAYS > 0 and settings.SKEP_LOG_RETENTION_DAYS <= 0:
        message = "No job is archived: that waits until its logs are deleted, and they never are."
        action = "Set SKEP_LOG_RETENTION_DAYS, or SKEP_JOB_ARCHIVE_DAYS=0."
        yield warning("archive_waits_for_logs", message, action)
    if settings.SKEP_JOB_ARCHIVE_DAYS <= 0 < settings.SKEP_JOB_ARCHIVE_KEEP_DAYS:
        message = "SKEP_JOB_ARCHIVE_KEEP_DAYS is set, and no job is archived any more."
        action = "Set SKEP_JOB_ARCHIVE_DAYS, unless the archive shall only become empty."
        yield note("archive_off", message, action)


def misspelt(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that look like a setting and are none, with the setting meant."""
    known = _known_settings()
    found: dict[str, str] = {}
    for name in environment:
        if name.startswith("SKEP_") and name not in known:
            for meant in get_close_matches(name, known, 1, LIKE):
                found[name] = meant
    return found


@cache
def _known_settings() -> frozenset[str]:
    root = Path(__file__).parents[2]
    texts = [(root / name).read_text() for name in ("settings.py", "env_settings.py")]
    return frozenset(re.findall(r"SKEP_[A-Z0-9_]+", "\n".join(texts)))


def check_processes() -> Iterator[Finding]:
    """Whether each kind of process runs, in one version and with the same settings."""
    running = processes.running()
    kinds = Counter(process.kind for process in running)
    about = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    python = f"Python {platform.python_version()}, Django {django.get_version()}"
    yield ok(f"Skep {__version__} ({python}); running: {about or 'none'}.", running=dict(kinds))
    yield from _missing_kinds(running)
    others = {p.version for p in running} - {__version__}
    if others:
        old = names(sorted({f"{p.kind} on {p.host} ({p.version})" for p in running
                            if p.version != __version__}))  # fmt: skip
        action = "Restart them with this version. During a rolling upgrade this passes."
        yield warning("versions_differ", f"This is {__version__}, and not all are: {old}.", action)
    yield from _settings_differ(running)


def _missing_kinds(running: list[Process]) -> Iterator[Finding]:
    worked = {queue for p in running if p.kind.startswith("worker") for queue in _queues_of(p)}
    kinds = {process.kind for process in running}
    needed = {
        "web": "no page and no API answers",
        "gateway": "agents cannot connect, and stop their jobs when their leases are over",
        "beat": "nothing periodic is done: no retries, no retention, no notifications",
    }
    for kind, harm in needed.items():
        if kind not in kinds:
            message = f"No process of the kind {kind} has reported itself for a minute: {harm}."
            yield error("process_missing", message, f"Start {kind}; see its log.", kind=kind)
    for queue in QUEUES:
        if queue not in worked:
            message = f"No Celery worker takes tasks of the queue {queue}."
            action = f"Start a worker with -Q {queue}; see its log."
            yield error("worker_missing", message, action, queue=queue)


def _queues_of(process: Process) -> list[str]:
    found = re.fullmatch(r"worker \((.*)\)", process.kind)
    return found[1].split(",") if found else []


def _settings_differ(running: list[Process]) -> Iterator[Finding]:
    """A digest is keyed by SKEP_SECRET_KEY: where that differs, all others seem to."""
    for name in processes.SHARED:
        found = {p.settings.get(name, "") for p in running}
        if len(found) > 1:
            most = Counter(p.settings.get(name, "") for p in running).most_common(1)[0][0]
            odd = names(sorted({f"{p.kind} on {p.host}" for p in running
                                if p.settings.get(name, "") != most}))  # fmt: skip
            message = f"{name} is not the same in all processes; it differs in {odd}."
            action = "Give all processes the same value, and restart them."
            yield error("settings_differ", message, action, setting=name)
            if name == "SKEP_SECRET_KEY":
                return


def check_clocks() -> Iterator[Finding]:
    """Compare the clocks of the database, of the server's machines and of nodes with that of Redis:
    tokens, leases and the times of logs rest on them. What a message takes is part of the
    difference, so that less than 2 s is fine."""
    redis = readings.redis_server().clock_ahead_s
    # Of this machine against that of Redis, and of the database against this machine.
    clocks = {f"{p.host} ({p.kind})": p.clock_ahead_s for p in processes.running()}
    clocks["this machine"] = redis
    clocks["PostgreSQL"] = readings.database().clock_ahead_s + redis
    wrong = {name: ahead for name, ahead in clocks.items() if abs(ahead) > CLOCK_S}
    known = processes.node_clocks()
    online = Node.objects.filter(state=NodeState.ONLINE).values_list("pk", "name")
    on_nodes = {name: known[str(pk)] for pk, name in online if str(pk) in known}
    wrong |= {f"node {name}": a for name, a in on_nodes.items() if abs(a) > CLOCK_S}
    yield ok(f"{len(clocks)} clocks of the server and {len(on_nodes)} of nodes agree.")
    if wrong:
        worst = sorted(wrong.items(), key=lambda one: -abs(one[1]))
        named = names(f"{name} by {ahead:+.1f} s" for name, ahead in worst)
        action = "Keep the time by chrony or systemd-timesyncd: `chronyc tracking`."
        say = error if abs(worst[0][1]) > CLOCK_BAD_S else warning
        yield say("clock_wrong", f"Clocks differ from that of Redis: {named}.", action)
