"""`skep exec`, `ssh`, `port-forward`: into a running task, as its owner."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from skep_client.cli.common import JobName, TaskName, client, find_attempt, find_job, say

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.errors import SkepError
    from skep_client.forwarding import Forward

MAX_PORT = 65535


def add_to(app: typer.Typer) -> None:
    app.command("exec")(execute)
    app.command()(ssh)
    app.command("port-forward")(port_forward)


def execute(
    job: JobName,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]...", help="Command, after `--`; default: a shell."),
    ] = None,
    task: TaskName = "",
    no_tty: Annotated[bool, typer.Option("-T", "--no-tty", help="Allocate no terminal.")] = False,
) -> None:
    """Run a command in a task; ends with its exit code. At a terminal it gets one, too."""
    from skep_client import terminal

    tty = not no_tty and terminal.is_interactive()
    with client() as skep:
        _exec(skep, job, task, command or [], tty=tty)


def ssh(
    job: JobName,
    task: TaskName = "",
    proxy: Annotated[
        bool,
        typer.Option("--proxy", help="Print how OpenSSH reaches the sshd of an image instead."),
    ] = False,
) -> None:
    """Open a shell in a task. It needs no sshd: the platform carries it."""
    with client() as skep:
        if proxy:
            say(_proxied(skep, job, task))
        else:
            _exec(skep, job, task, [], tty=True)


def port_forward(
    job: JobName,
    ports: Annotated[
        list[str],
        typer.Argument(
            metavar="[LOCAL:]REMOTE...", help="Ports to forward; local port 0 picks a free one."
        ),
    ],
    task: TaskName = "",
    address: Annotated[
        str,
        typer.Option(
            help="Address to listen on, such as 127.0.0.1 (shares cookies with other pages)."
        ),
    ] = "",
    stdio: Annotated[
        bool,
        typer.Option(
            "--stdio", help="Forward one connection over stdin and stdout (for ProxyCommand)."
        ),
    ] = False,
) -> None:
    """Reach ports of a task at a loopback address of its own, until Ctrl-C."""
    wanted = [_ports(text) for text in ports]
    with client() as skep:
        if stdio:
            _join_stdio(skep, _running(skep, job, task), wanted)
        else:
            _listen(skep, _reachable(skep, job, task), wanted, address)


def _exec(skep: Skep, job: str, task: str, argv: list[str], *, tty: bool) -> None:
    from contextlib import nullcontext

    from skep_client import terminal
    from skep_client.streams import open_exec

    rows, columns = terminal.size()
    attempt_id = _running(skep, job, task)
    with open_exec(skep, attempt_id, argv, tty=tty, rows=rows, columns=columns) as stream:
        with terminal.raw(stream) if tty and sys.stdin.isatty() else nullcontext():
            terminal.join(stream)
        raise typer.Exit(stream.exit_code or 0)


def _running(skep: Skep, job: str, task: str) -> str:
    """The id of the present attempt; the server says whether it can be reached."""
    return find_attempt(skep, find_job(skep, job), task)[1].id


def _reachable(skep: Skep, job: str, task: str) -> str:
    """As `_running`, but the refusal comes now, not at the first connection."""
    from skep_client.errors import SkepError

    found = skep.job(find_job(skep, job).id)
    if not found.may_exec:
        message = "Only the owner of a job and admins may reach into its tasks."
        raise SkepError(403, "forbidden", message)
    which, attempt = find_attempt(skep, found, task)
    if attempt.state != "RUNNING":
        message = f"{which.role}-{which.index} is not running: it is {attempt.state}."
        raise SkepError(409, "not_running", message)
    return attempt.id


def _proxied(skep: Skep, job: str, task: str) -> str:
    """Return the shell command that reaches the image's sshd."""
    import shlex

    found, attempt = find_attempt(skep, find_job(skep, job), task)
    name = f"{found.role}-{found.index}"
    port = next(iter(attempt.ports.get("ssh", [])), 22)
    proxy = f"skep port-forward {shlex.quote(job)} --task {name} --stdio {port}"
    return f"ssh -o ProxyCommand={shlex.quote(proxy)} root@{name}"


def _ports(text: str) -> tuple[int, int]:
    """Parse a pair of local and remote port. Raises BadParameter."""
    local, joined, remote = text.rpartition(":")
    numbers = [local or remote, remote] if not joined else [local or "0", remote]
    if not all(n.isascii() and n.isdigit() and int(n[:6]) <= MAX_PORT for n in numbers):
        raise typer.BadParameter(f"{text} is no port, such as 8888 or 9000:8888")
    return int(numbers[0]), int(numbers[1])


def _listen(skep: Skep, attempt_id: str, wanted: list[tuple[int, int]], address: str) -> None:
    import threading
    from contextlib import ExitStack

    from skep_client.forwarding import Forward

    with ExitStack() as stack:
        for local, remote in wanted:
            try:
                forward = Forward(skep, attempt_id, local, remote, _report, address)
            except OSError as error:
                raise typer.BadParameter(f"port {local}: {error.strerror}") from None
            stack.enter_context(forward)
            say(f"{forward.address}:{forward.local} -> {remote}")
            _advise(forward, skep.server)
            threading.Thread(target=forward.serve, daemon=True).start()
        threading.Event().wait()


def _advise(forward: Forward, server: str) -> None:
    """Where this machine has one loopback address only, another name keeps cookies apart."""
    from urllib.parse import urlsplit

    if forward.address == urlsplit(server).hostname:
        message = (
            f"A browser would send your login at {forward.address} along: open "
            f"http://localhost:{forward.local} instead."
        )
        say(message, err=True)


def _join_stdio(skep: Skep, attempt_id: str, wanted: list[tuple[int, int]]) -> None:
    from skep_client import terminal
    from skep_client.streams import open_port

    with open_port(skep, attempt_id, wanted[0][1]) as stream:
        terminal.join(stream)


def _report(error: SkepError) -> None:
    say(f"{error.message} ({error.code})", err=True)
