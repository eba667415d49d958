"""`skep notebook`, `tensorboard`, `apps`: programs in jobs that one opens in a browser."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from skep_client.cli.common import Json, VcName, client, find_job, print_json, print_table, say

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import App

POLL_S = 1.0


class Kind(StrEnum):
    JUPYTERLAB = "jupyterlab"
    CODE_SERVER = "code-server"
    SHELL = "shell"


Image = Annotated[str, typer.Option(help="Image that has the program.")]
Cpus = Annotated[int, typer.Option(help="CPU cores.")]
Memory = Annotated[int, typer.Option(help="Memory in MiB.")]
Storages = Annotated[
    list[str] | None, typer.Option("--storage", help="Storage to mount; may be repeated.")
]
JobNameOption = Annotated[str, typer.Option("--name", help="Name of the job; default: a new one.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait until it can be opened.")]
OpenIt = Annotated[bool, typer.Option("--open", help="Open it in this machine's browser.")]


def add_to(app: typer.Typer) -> None:
    app.command()(notebook)
    app.command()(tensorboard)
    app.command("apps")(list_apps)


def notebook(
    image: Image,
    kind: Annotated[
        Kind, typer.Option("--type", help="jupyterlab, code-server (VS Code) or shell.")
    ] = Kind.JUPYTERLAB,
    gpus: Annotated[int, typer.Option(help="GPUs.")] = 0,
    cpus: Cpus = 2,
    memory: Memory = 4096,
    vc: VcName = "default",
    storage: Storages = None,
    name: JobNameOption = "",
    no_wait: NoWait = False,
    open_it: OpenIt = False,
    as_json: Json = False,
) -> None:
    """Start JupyterLab, VS Code or a shell in a job of its own, and print its address."""
    with client() as skep:
        made = skep.create_app(
            kind.value,
            image,
            vc,
            name=name or None,
            gpus=gpus,
            cpus=cpus,
            memory_mb=memory,
            storages=storage or None,
        )
        _finish(skep, made, no_wait=no_wait, open_it=open_it, as_json=as_json)


def tensorboard(
    job: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="Running job; without one, in a job of its own."),
    ] = None,
    logdir: Annotated[
        str, typer.Option(help="Folder with the event files, as the container sees it.")
    ] = "/workspace/runs",
    role: Annotated[str, typer.Option("--role", help="Task role of the job.")] = "",
    image: Image = "",
    cpus: Cpus = 1,
    memory: Memory = 2048,
    vc: VcName = "default",
    storage: Storages = None,
    name: JobNameOption = "",
    no_wait: NoWait = False,
    open_it: OpenIt = False,
    as_json: Json = False,
) -> None:
    """Show a folder in TensorBoard: of a running job, or of a storage in a job of its own."""
    if job is None and not image:
        raise typer.BadParameter("name a running job, or an image that has TensorBoard (--image)")
    with client() as skep:
        if job is not None:
            found = skep.attach_tensorboard(find_job(skep, job).id, logdir, role)
        else:
            found = skep.create_app(
                "tensorboard",
                image,
                vc,
                name=name or None,
                cpus=cpus,
                memory_mb=memory,
                storages=storage or None,
                log_dir=logdir,
            )
        _finish(skep, found, no_wait=no_wait, open_it=open_it, as_json=as_json)


def list_apps(
    everyone: Annotated[
        bool, typer.Option("--shared", help="Those that others share with you, too.")
    ] = False,
    ended: Annotated[bool, typer.Option("--ended", help="Those of jobs that ended, too.")] = False,
    as_json: Json = False,
) -> None:
    """List your notebooks and other apps in jobs, newest first."""
    with client() as skep:
        found = list(skep.apps(mine=None if everyone else "1", ended="1" if ended else None))
        if as_json:
            print_json(found)
            return
        print_table(
            ("NAME", "TYPE", "STATE", "JOB", "GPUS", "OWNER", "ADDRESS"),
            [
                (one.name, one.type, one.state, one.job_name, one.gpus, one.owner,
                 _address(skep, one))
                for one in found
            ],
        )  # fmt: skip


def _finish(skep: Skep, app: App, *, no_wait: bool, open_it: bool, as_json: bool) -> None:
    if not as_json:
        say(f"{app.name} of job {app.job_name}")
    if not no_wait:
        app = _wait(skep, app, quiet=as_json)
    address = _address(skep, app)
    if as_json:
        print_json(app)
    else:
        say(address)
    if open_it:
        import webbrowser

        webbrowser.open(address)


def _wait(skep: Skep, app: App, *, quiet: bool) -> App:
    """Wait until the app answers. Raises SkepError where its job ends before."""
    from skep_client import calls
    from skep_client.errors import SkepError

    last = ""
    while app.state != "ready":
        if app.state == "ended":
            message = f"The job ended before its app answered: skep logs {app.job_name} says why."
            raise SkepError(409, "app_ended", message)
        now = f"{app.state}: {app.problem}" if app.problem else app.state
        if now != last and not quiet:
            say(now, err=True)
        last = now
        time.sleep(POLL_S)
        app = skep.run(calls.following(calls.app(app.id)))
    return app


def _address(skep: Skep, app: App) -> str:
    """Return the page of Skep that opens an app: a shell is a part of its job's page."""
    server = skep.server.rstrip("/")
    if app.type == "shell":
        return f"{server}/jobs/{app.job_id}?tab=terminal"
    return f"{server}/apps/{app.id}"
