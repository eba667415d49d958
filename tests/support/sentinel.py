"""Valkey behind Sentinel, as real processes: a primary, a replica and a sentinel; or, with TLS, a
primary and a sentinel, each behind a proxy that decrypts, as the Valkey of the tests has no TLS."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
from tests.support.gateway_server import wait_until
from tests.support.ports import free_port
from tests.support.slapd import certificate
from tests.support.tls_proxy import tls_proxy

from skep_platform.onebox import engines

PASSWORD = "of-the-test"
MASTER = "skep"


@dataclass
class Group:
    url: str
    primary: subprocess.Popen[bytes]

    def kill_primary(self) -> None:
        self.primary.send_signal(signal.SIGKILL)
        self.primary.wait()


@contextmanager
def sentinel_group() -> Iterator[Group]:
    first, second, third = free_port(), free_port(), free_port()
    login = f"requirepass {PASSWORD}\nmasterauth {PASSWORD}\n"
    watch = f"sentinel monitor {MASTER} 127.0.0.1 {first} 1\n"
    # Longer than a busy machine pauses the primary: it would be replaced before it is killed.
    for setting in (f"auth-pass {MASTER} {PASSWORD}", f"down-after-milliseconds {MASTER} 3000"):
        watch += f"sentinel {setting}\n"
    watch += f"sentinel failover-timeout {MASTER} 3000\n"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skep-sentinel-")))

        primary = _start(stack, folder, first, login)
        _start(
            stack,
            folder,
            second,
            f"{login}replicaof 127.0.0.1 {first}\nrepl-diskless-sync-delay 0\n",
        )
        _start(stack, folder, third, watch, "--sentinel")
        sentinel = redis.Redis(port=third)
        wait_until(lambda: _knows_replica(sentinel), "the sentinel knows a replica that is in sync")
        address = f"127.0.0.1:{free_port()},127.0.0.1:{third}"  # the first one is away
        yield Group(f"sentinel://:{PASSWORD}@{address}/0?master={MASTER}", primary)


@contextmanager
def sentinel_with_tls() -> Iterator[str]:
    """Yield the URL of a group that speaks TLS with its clients, and wants passwords."""
    first, second = free_port(), free_port()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skep-sentinel-")))
        certificate(folder)
        primary = stack.enter_context(tls_proxy(folder, first))
        sentinel = stack.enter_context(tls_proxy(folder, second))
        login = f"requirepass {PASSWORD}\n"
        watch = f"sentinel monitor {MASTER} 127.0.0.1 {primary} 1\n"
        watch += f"sentinel auth-pass {MASTER} {PASSWORD}\n"
        _start(stack, folder, first, login)
        _start(stack, folder, second, login + watch, "--sentinel")
        query = f"master={MASTER}&sentinel_password={PASSWORD}&ssl_ca_certs={folder}/cert.pem"
        yield f"sentinels://:{PASSWORD}@127.0.0.1:{sentinel}/0?{query}"


def _start(
    stack: ExitStack, folder: Path, port: int, text: str, *options: str
) -> subprocess.Popen[bytes]:
    config = folder / f"{port}.conf"
    config.write_text(f"port {port}\nbind 127.0.0.1\ndir {folder}\nsave ''\n{text}")
    command = [str(engines.find_binaries().valkey), str(config), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    stack.callback(_end, process)
    wait_until(lambda: _answers(port), "Valkey answers")
    return process


def _knows_replica(sentinel: redis.Redis) -> bool:
    found = sentinel.sentinel_slaves(MASTER)
    return any(replica["master-link-status"] == "ok" for replica in found)


def _answers(port: int) -> bool:
    try:
        redis.Redis(port=port).ping()
    except redis.AuthenticationError:
        return True
    except redis.ConnectionError:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
