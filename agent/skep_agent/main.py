"""The command `skep-agent`: join a cluster, run the agent."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import structlog
import typer

from skep_agent import tracing
from skep_agent.config import (
    DEFAULT_PORTS,
    DEFAULT_STATE,
    AddressFound,
    AgentConfig,
    Watermarks,
    address_of,
)
from skep_agent.isolation.mounts import StoragePolicy
from skep_agent.join import JoinFailed, is_open_to_others
from skep_agent.join import join as join_cluster
from skep_agent.metrics import parsed_address
from skep_agent.registry_policy import RegistryPolicy
from skep_agent.run import run_agent
from skep_agent.shell.link import FatalClose
from skep_agent.statedir import StateDir, StateError
from skep_agent.threads import end_when_hung

app = typer.Typer(help="The Skep node agent.", no_args_is_help=True, add_completion=False)

State = Annotated[
    Path,
    typer.Option(envvar="SKEP_AGENT_STATE", help="Folder for the agent's credential and state."),
]

_PLAIN_HTTP = (
    "{server} has no TLS. Credentials and secrets of jobs cross the network in the clear, and"
    " whoever reads them can run anything on this node."
)


END_S = 5.0  # past the end of the agent's work
_alone = False  # this process is nothing but an agent

_UNUSABLE = "the state directory {state} cannot be used: {error}"


@app.command()
def join(
    server: Annotated[str, typer.Option(help="Address of Skep: https://skep.example.org")],
    token: Annotated[
        str, typer.Option(envvar="SKEP_JOIN_TOKEN", help="A one-time token from an admin.")
    ],
    name: Annotated[str, typer.Option(help="This node's name in the cluster.")] = "",
    state: State = DEFAULT_STATE,
    allow_http: Annotated[
        bool,
        typer.Option(
            "--allow-http",
            envvar="SKEP_ALLOW_HTTP",
            help="Join over plain HTTP, for a try-out in a network that you trust.",
        ),
    ] = False,
) -> None:
    """Make this machine a node of a cluster: trade a one-time token for a credential."""
    if is_open_to_others(server):
        if not allow_http:
            _fail(
                f"{server} has no TLS: the token and this node's credential would cross the network"
                " in the clear. Use an https:// address, or for a try-out --allow-http (or"
                " SKEP_ALLOW_HTTP=1)",
                2,
            )
        typer.echo(f"skep-agent: warning: {_PLAIN_HTTP.format(server=server)}", err=True)
    try:
        identity = asyncio.run(
            join_cluster(server, token, name or socket.gethostname(), StateDir(state))
        )
    except JoinFailed as failure:
        _fail(f"{failure} ({failure.code})", 1)
    except OSError as error:
        _fail(_UNUSABLE.format(state=state, error=error), 2)
    typer.echo(f"Joined {identity.server} as {identity.name}. Now: skep-agent run --state {state}")


@app.command()
def run(
    state: State = DEFAULT_STATE,
    runtime: Annotated[str, typer.Option(help='"docker", or "mock" for load tests.')] = "docker",
    gpus: Annotated[
        int | None, typer.Option(help="Simulate this many GPUs instead of detecting them.", min=0)
    ] = None,
    gpu_model: Annotated[str, typer.Option(help="Model of simulated GPUs.")] = "Simulated-GPU",
    gpu_memory_mb: Annotated[
        int, typer.Option(help="Memory of each simulated GPU, in MiB.")
    ] = 81920,
    address: Annotated[
        str,
        typer.Option(
            envvar="SKEP_AGENT_ADDRESS",
            help="Address at which tasks of other nodes reach this one.",
        ),
    ] = "",
    ports: Annotated[
        str,
        typer.Option(envvar="SKEP_AGENT_PORTS", help="Ports that tasks may be given: FIRST-LAST."),
    ] = "{}-{}".format(*DEFAULT_PORTS),
    labels: Annotated[
        list[str] | None,
        typer.Option(
            envvar="SKEP_AGENT_LABELS", help="Label of the node, as KEY=VALUE. May be repeated."
        ),
    ] = None,
    cpus: Annotated[
        float | None, typer.Option(envvar="SKEP_AGENT_CPUS", help="CPUs to offer; default: all.")
    ] = None,
    memory_mb: Annotated[
        int | None,
        typer.Option(envvar="SKEP_AGENT_MEMORY_MB", help="Memory to offer, in MiB; default: all."),
    ] = None,
    fence: Annotated[
        str,
        typer.Option(
            envvar="SKEP_AGENT_FENCE",
            help='"required": no container without firewall rules; "off": none at all, for a '
            "machine on which you trust all jobs.",
        ),
    ] = "required",
    registries: Annotated[
        str,
        typer.Option(
            envvar="SKEP_REGISTRIES",
            help="Registries that images may come from, with commas: names, *.names, address "
            'ranges, and "public" for all at public addresses.',
        ),
    ] = "public",
    image_cache_high: Annotated[
        int,
        typer.Option(
            envvar="SKEP_IMAGE_CACHE_HIGH",
            help="Percent of the disk in use above which images that the agent pulled and that no "
            "container uses are removed; 0: never.",
        ),
    ] = 85,
    image_cache_low: Annotated[
        int,
        typer.Option(envvar="SKEP_IMAGE_CACHE_LOW", help="Percent at which that ends."),
    ] = 80,
    storage_roots: Annotated[
        list[str] | None,
        typer.Option(
            "--storage-root",
            envvar="SKEP_STORAGE_ROOTS",
            help="Folder of this machine below which storages of type host_path may lie. May be "
            "repeated; none: no host path is mounted.",
        ),
    ] = None,
    nfs_servers: Annotated[
        list[str] | None,
        typer.Option(
            "--nfs-server",
            envvar="SKEP_NFS_SERVERS",
            help="Server from which storages may be mounted. May be repeated; none: any server.",
        ),
    ] = None,
    s3_endpoints: Annotated[
        list[str] | None,
        typer.Option(
            "--s3-endpoint",
            envvar="SKEP_S3_ENDPOINTS",
            help="Object store that storages may use, such as https://s3.example.org. May be "
            "repeated; none: any.",
        ),
    ] = None,
    gpu_check: Annotated[
        str,
        typer.Option(
            envvar="SKEP_AGENT_GPU_CHECK",
            help="Command that checks one GPU, named by SKEP_GPU_UUID and CUDA_VISIBLE_DEVICES, "
            "before the node is used: code 0 passes.",
        ),
    ] = "",
    metrics: Annotated[
        str,
        typer.Option(
            envvar="SKEP_AGENT_METRICS",
            help="ADDRESS:PORT where Prometheus reads the numbers of this node and its GPUs, such "
            "as 127.0.0.1:9470; none: nowhere.",
        ),
    ] = "",
) -> None:
    """Run the agent. On SIGTERM it leaves, and its containers keep running."""
    configure_logs()
    tracing.name_service("skep-agent")
    if runtime not in ("docker", "mock"):
        _fail('--runtime is "docker" or "mock"', 2)
    if fence not in ("required", "off"):
        _fail('--fence is "required" or "off"', 2)
    with _refused("--registries"):
        RegistryPolicy.parsed(registries)
    watermarks = Watermarks(image_cache_high, image_cache_low)
    if problem := watermarks.problem:
        _fail(f"--image-cache-high, --image-cache-low: {problem}", 2)
    with _refused("--storage-root, --nfs-server, --s3-endpoint"):
        StoragePolicy.parsed(storage_roots or (), nfs_servers or (), state, s3_endpoints or ())
    with _refused("--metrics"):
        listen = parsed_address(metrics)
    with _refused("--gpu-check is no command"):
        shlex.split(gpu_check)
    with _refused(f"--address {address!r} is no IP address, and no name of one"):
        reached_at = address_of(address)
    try:
        StateDir(state)
    except OSError as error:
        _fail(_UNUSABLE.format(state=state, error=error), 2)
    config = AgentConfig(
        state=state,
        runtime=runtime,  # type: ignore[arg-type]
        simulated_gpus=gpus,
        gpu_model=gpu_model,
        gpu_memory_mb=gpu_memory_mb,
        address=reached_at,
        port_range=_port_range(ports),
        labels=_labels(labels or []),
        cpus=cpus,
        memory_mb=memory_mb,
        fence=fence,  # type: ignore[arg-type]
        registries=registries,
        image_cache=watermarks,
        storage_roots=tuple(storage_roots or ()),
        nfs_servers=tuple(nfs_servers or ()),
        s3_endpoints=tuple(s3_endpoints or ()),
        gpu_check=gpu_check,
        metrics=listen,
    )
    try:
        asyncio.run(until_signalled(run_agent(config)))
    except StateError as error:
        _fail(str(error), 2)
    except FatalClose as error:
        _fail(str(error), 3)
    except AddressFound as error:
        _fail(str(error), 1)


@app.command()
def cleanup(
    containers: Annotated[
        bool,
        typer.Option(
            "--containers",
            help="Also remove containers that do not run, with their volumes. An agent that was "
            "only stopped loses the ends and logs that it has not reported yet.",
        ),
    ] = False,
    clusters: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster",
            metavar="ID",
            help="Only what belongs to this cluster. May be repeated. The label skep.cluster of "
            "a container has the ID.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, and remove nothing.")
    ] = False,
) -> None:
    """Remove what agents that are gone left on this machine: bridges, VXLAN devices, firewall
    rules. Whatever belongs to a cluster with a living agent here stays."""
    from skep_agent.containers import RuntimeFailure
    from skep_agent.runtimes.docker_engine import Engine
    from skep_agent.runtimes.docker_leftovers import Cleanup

    async def clean() -> list[str]:
        engine = Engine()
        try:
            return await Cleanup(engine, clusters=clusters or None, dry_run=dry_run).run(
                containers=containers
            )
        finally:
            await engine.close()

    try:
        done = asyncio.run(clean())
    except (RuntimeFailure, OSError) as error:
        _fail(str(error), 1)
    for line in done or ["Nothing is left over."]:
        typer.echo(line if not done else f"{'would remove' if dry_run else 'removed'} {line}")


@app.command("burn-in")
def burn_in(
    seconds: Annotated[
        float, typer.Option(min=0, max=86400, help="For how long; one pass in any case.")
    ] = 60.0,
) -> None:
    """Try the memory and the arithmetic of one GPU, the first that CUDA_VISIBLE_DEVICES names. It
    takes all memory that is free. The exit code is 1 when it is bad, 2 when it cannot be tried."""
    from skep_agent.accelerators.cuda import CudaError, Device
    from skep_agent.burn_in import BadGpu, BurnIn

    try:
        tried = BurnIn(Device())
        tried.run(seconds)
    except BadGpu as error:
        _fail(str(error), 1)
    except CudaError as error:
        # Without a code there was no GPU to try. With one it may be what is wrong with it.
        _fail(str(error), 1 if error.code else 2)
    share, total = 100 * tried.tested // tried.total, tried.total / 1024**3
    typer.echo(
        f"{tried.device.name}: no error in {share} % of {total:.1f} GiB and in"
        f" {tried.operations:.1e} operations, by {tried.passes} passes."
    )


async def until_signalled(work: Coroutine[Any, Any, None]) -> None:
    """Run until done, or until SIGTERM or SIGINT asks to leave."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    asked = False

    def leave() -> None:
        nonlocal asked
        asked = True
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    if _alone:
        end_when_hung(loop)
    try:
        await task
    except asyncio.CancelledError:
        if not asked:
            raise
    finally:
        if _alone:
            threading.Thread(target=_end_soon, args=(0 if asked else 1,), daemon=True).start()


def _end_soon(status: int) -> None:
    """End the process when its threads do not: Python waits for each, and one may be with a disk
    or an engine that hangs. A manager of services would kill it in the end, but only then start
    the next agent, when the lease of what runs here may be over."""
    time.sleep(END_S)
    os._exit(status)


def configure_logs() -> None:
    """Write readable lines on a terminal, JSON elsewhere."""
    tty = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if tty else [structlog.processors.format_exc_info]),
            structlog.dev.ConsoleRenderer() if tty else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(_Lines(sys.stderr)),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )


class _Lines:
    """Standard error as far as it takes lines. Who reads them may have ended, or their disk be
    full: what the agent does after a line is done all the same."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def main() -> None:
    global _alone
    _alone = True
    app()


def _port_range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    if not (first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last) <= 65535):
        _fail(f"--ports {text!r} is not FIRST-LAST", 2)
    return int(first), int(last)


def _labels(pairs: list[str]) -> dict[str, str]:
    labels = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    if len(labels) != len(pairs):
        _fail("--labels is KEY=VALUE", 2)
    return labels


def _fail(problem: str, status: int) -> NoReturn:
    typer.echo(f"skep-agent: {problem}", err=True)
    raise typer.Exit(status)


@contextmanager
def _refused(option: str) -> Iterator[None]:
    """End the program with what is wrong with the value of an option that is read inside."""
    try:
        yield
    except (ValueError, OSError) as error:
        _fail(f"{option}: {error}", 2)
