"""How each process of one box is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGTERM

from skep_platform.onebox.children import Program
from skep_platform.onebox.forks import Server
from skep_platform.onebox.home import Home
from skep_platform.onebox.options import SIMULATED_CPUS, SIMULATED_MEMORY_MB, Options

POOL = 16  # database connections of each process at most; they are opened as threads need them
# The order of the ports of metrics; agents follow.
METRICS = ("web", "gateway", "apps", "worker-scheduler", "worker-default")
GATEWAY_NICE = -5  # needs root: leases come before pages, and before tasks on this machine
WORKERS = {"scheduler": 1, "default": 3}  # queue -> threads; a simulation takes one for minutes
# What an agent inherits of our environment, with the variables of OpenTelemetry: never the
# database's address, never a secret of ours.
AGENT_ENVIRONMENT = (
    *("PATH", "HOME", "LANG", "TZ", "LD_LIBRARY_PATH", "DOCKER_HOST", "SKEP_REGISTRIES"),
    *("SKEP_STORAGE_ROOTS", "SKEP_NFS_SERVERS", "SKEP_S3_ENDPOINTS"),
)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the engines are; secrets inside."""

    database_url: str
    redis_url: str
    secret_key: str


def server_environment(home: Home, options: Options, where: Addresses) -> dict[str, str]:
    """Of the variables of a Skep process those that differ from our own."""
    return {
        "DJANGO_SETTINGS_MODULE": "skep_platform.settings",
        "SKEP_DATABASE_URL": where.database_url,
        "SKEP_REDIS_URL": where.redis_url,
        "SKEP_SECRET_KEY": where.secret_key,
        "SKEP_DATA_DIR": str(home.data),
        "SKEP_PUBLIC_URL": os.environ.get("SKEP_PUBLIC_URL") or options.url,
        # An address of the network is asked for by --host, which warns.
        "SKEP_ALLOW_HTTP": os.environ.get("SKEP_ALLOW_HTTP") or _allow_http(),
        "SKEP_GATEWAY_URL": _gateway_url(options),
        "SKEP_GATEWAY_BACKEND": options.gateway_url,
        "SKEP_APPS_URL": _apps_url(options),
        # Images that were built on this machine are in no registry.
        "SKEP_CHECK_IMAGES": os.environ.get("SKEP_CHECK_IMAGES") or "warn",
        "SKEP_REGISTRIES": os.environ.get("SKEP_REGISTRIES", ""),
        "SKEP_ALLOWED_HOSTS": os.environ.get("SKEP_ALLOWED_HOSTS") or ",".join(options.names()),
        "SKEP_DATABASE_POOL": str(POOL),
        "SKEP_METRICS_LISTEN": "",  # each process has its own, where --metrics-port asks for them
        "PYTHONUNBUFFERED": "1",
    }


def boot(environment: Mapping[str, str]) -> Program:
    return _server("boot", "skep_platform.onebox.boot", [], environment)


def web(options: Options, environment: Mapping[str, str]) -> Program:
    return _uvicorn("web", "skep_platform.asgi", options, options.port, environment)


def gateway(options: Options, environment: Mapping[str, str]) -> Program:
    """A process of its own, so that no request holds up a heartbeat."""
    module, port = "skep_platform.gateway.asgi", options.agents_port
    program = _uvicorn("gateway", module, options, port, environment)
    return replace(program, nice=GATEWAY_NICE)


def apps(options: Options, environment: Mapping[str, str]) -> Program:
    """The proxy of apps in jobs: a process of its own, so that what goes through it delays no
    page."""
    module = "skep_platform.interactive.asgi"
    return _uvicorn("apps", module, options, options.proxy_port, environment)


def _uvicorn(
    name: str, module: str, options: Options, port: int, environment: Mapping[str, str]
) -> Program:
    arguments = [
        f"{module}:application",
        # uvicorn takes "::" for IPv6 alone, and "" for every address of both families.
        f"--host={'' if options.host == '::' else options.host}",
        f"--port={port}",
        "--http=skep_platform.core.serving:Impatient",
        "--no-access-log",
        "--no-proxy-headers",  # a task in the host's network could give itself any address
        "--ws-max-size=16777216",  # skep_agent.protocol.MAX_TEXT_FRAME
        # Who does not read for a while, as a pager at the end of `skep exec`, answers no ping. The
        # dead are found by TCP, which the pings go on to try.
        "--ws-ping-timeout=86400",
        "--ws-per-message-deflate=false",  # a small compressed frame may be a large one
        "--timeout-graceful-shutdown=1",
    ]
    return _server(name, "uvicorn", arguments, {**environment, **_metrics(options, name)})


def _metrics(options: Options, name: str) -> dict[str, str]:
    return {"SKEP_METRICS_LISTEN": options.metrics_address(METRICS.index(name))}


def worker(
    home: Home, options: Options, queue: str, gate: Path, environment: Mapping[str, str]
) -> Program:
    name = f"worker-{queue}"
    arguments = [
        f"--queue={queue}",
        f"--threads={WORKERS[queue]}",
        f"--gate={gate}",
        f"--ready={ready_file(home, name)}",
    ]
    if queue == "default":
        arguments.append("--beat")
    # Django's own, which load every view; the web server does them.
    own = {"CELERY_SKIP_CHECKS": "1", **_metrics(options, name)}
    return _server(name, "skep_platform.onebox.worker", arguments, {**environment, **own})


def agent(home: Home, options: Options, number: int) -> Program:
    """The agent of the node of this number, from 0; it has joined already."""
    name = options.node_names()[number]
    first, last = options.port_range(number)
    arguments = [
        "run",
        f"--state={home.nodes / name}",
        f"--address={node_address(number)}",
        f"--ports={first}-{last}",
        f"--runtime={options.runtime}",
    ]
    if options.gpus is not None:
        arguments += [
            f"--gpus={options.gpus}",
            f"--gpu-model={options.gpu_model}",
            f"--cpus={SIMULATED_CPUS}",
            f"--memory-mb={SIMULATED_MEMORY_MB}",
        ]
    if listen := options.metrics_address(len(METRICS) + number):
        arguments.append(f"--metrics={listen}")
    if os.geteuid() != 0:
        arguments.append("--fence=off")  # firewall rules take root, and who runs it trusts the jobs
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in AGENT_ENVIRONMENT or name.startswith("OTEL_")
    }
    return _python(f"agent-{name}", "skep_agent", arguments, {**kept, "PYTHONUNBUFFERED": "1"})


def node_address(number: int) -> str:
    """Return the loopback address of the node of this number, from 0: one for each. torchrun
    identifies nodes by the name that belongs to their address, and that of 127.0.0.1 is "localhost"
    for all."""
    return f"127.0.{1 + number // 250}.{1 + number % 250}"


def _allow_http() -> str:
    return "" if os.environ.get("SKEP_PUBLIC_URL") else "1"


def _apps_url(options: Options) -> str:
    """Return where apps of jobs have their hosts: browsers resolve all names below localhost to
    the machine they run on."""
    if "SKEP_APPS_URL" in os.environ:
        return os.environ["SKEP_APPS_URL"]
    local = not os.environ.get("SKEP_PUBLIC_URL")
    return f"http://apps.localhost:{options.proxy_port}" if local else ""


def _gateway_url(options: Options) -> str:
    """Return the gateway's address for agents on other machines. Behind a proxy of the operator's
    own, the proxy routes to it."""
    if given := os.environ.get("SKEP_GATEWAY_URL", ""):
        return given
    return "" if os.environ.get("SKEP_PUBLIC_URL") else f":{options.agents_port}"


def ready_file(home: Home, name: str) -> Path:
    return home.run / f"{name}.ready"


def as_fork(program: Program, log: Path) -> Server:
    """Return a server of ours as what forks it needs to know."""
    _, _, module, *arguments = program.command
    return Server(
        program.name,
        module,
        arguments,
        dict(program.env),
        str(log),
        program.nice,
        program.death_signal,
    )


def _server(
    name: str, module: str, arguments: list[str], environment: Mapping[str, str]
) -> Program:
    return _python(name, module, arguments, {**os.environ, **environment})


def _python(
    name: str, module: str, arguments: list[str], environment: Mapping[str, str]
) -> Program:
    return Program(
        name, (sys.executable, "-m", module, *arguments), environment, stop_signal=SIGTERM
    )
