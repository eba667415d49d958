"""`skep submit`, `run`, `clone`, `convert`: all that makes a job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skep_client.cli.common import (
    JobName,
    Json,
    VcName,
    client,
    find_job,
    print_json,
    problem_line,
    read_file,
    say,
)

if TYPE_CHECKING:
    from skep_client.archives import Archive
    from skep_client.client import Skep
    from skep_client.models import Job
    from skep_jobfile.importers import Converted, Format
    from skep_jobfile.shorthand import Run

File = Annotated[str, typer.Argument(metavar="FILE", help="Job file; '-' reads stdin.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Show its log; fail when it fails.")]
FormatOption = Annotated[
    str, typer.Option("--format", help="auto, skep, slurm or kubeflow.", metavar="FORMAT")
]
WorkDir = Annotated[
    Path | None,
    typer.Option("--workdir", metavar="DIR", help="Send this folder along, to /workspace."),
]
FORMATS = ("auto", "skep", "slurm", "kubeflow")


def add_to(app: typer.Typer) -> None:
    for command in (submit, run, clone, convert):
        app.command()(command)


def submit(
    file: File,
    format: FormatOption = "auto",
    name: Annotated[str, typer.Option(help="Instead of the name in the file.")] = "",
    new_name: Annotated[
        bool,
        typer.Option("--force-name-suffix", help="Add letters that no earlier job's name has."),
    ] = False,
    workdir: WorkDir = None,
    ignore_storage: Annotated[
        bool,
        typer.Option("--ignore-storage", help="Also where a storage of it is not mounted."),
    ] = False,
    follow: Follow = False,
    as_json: Json = False,
) -> None:
    """Submit a job: a job file, a batch script of Slurm, or a manifest of Kubeflow."""
    text = as_job_file(file, format)
    if name or new_name:
        text = _renamed(text, name, new_name=new_name)
    if not ignore_storage:
        _refuse_lost_storage(text, file)
    with client() as skep:
        if workdir is not None:
            from skep_jobfile.shorthand import with_archive

            text = with_archive(text, _uploaded(skep, workdir))
        with _all_problems_told(file, as_json=as_json):
            job = skep.submit(text)
        _submitted(skep, job, follow=follow, as_json=as_json)


def run(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="After `--`.")],
    name: Annotated[str, typer.Option(help="Of the job; else after the command.")] = "",
    vc: VcName = "",
    gpus: Annotated[int, typer.Option(min=0, help="GPUs on each node.")] = 0,
    nodes: Annotated[int, typer.Option(min=1, help="Equal tasks that start together.")] = 1,
    gpu_type: Annotated[str, typer.Option(help="Model, as `skep nodes` shows it.")] = "",
    image: Annotated[str, typer.Option(help="Container image.")] = "ubuntu:24.04",
    cpus: Annotated[int, typer.Option(min=0, help="On each node; else by its GPUs.")] = 0,
    memory: Annotated[str, typer.Option(help="On each node, such as 64g.")] = "",
    env: Annotated[
        list[str], typer.Option("--env", "-e", help="NAME=VALUE, or NAME for your own value.")
    ] = [],  # noqa: B006
    time: Annotated[str, typer.Option(help="It is ended after so long: 2h, 90m.")] = "",
    priority: Annotated[str, typer.Option(help="prod, test or oppo.")] = "",
    workdir: WorkDir = None,
    tag: Annotated[list[str], typer.Option(help="May be repeated.")] = [],  # noqa: B006
    print_: Annotated[bool, typer.Option("--print", help="Show the job file; no job.")] = False,
    follow: Follow = False,
    as_json: Json = False,
) -> None:
    """Run a command as a job; torchrun in it spans all nodes."""
    from skep_jobfile.shorthand import Run, default_name

    wanted = Run(
        command=command,
        name=name or default_name(command),
        virtual_cluster=vc,
        nodes=nodes,
        gpus=gpus,
        gpu_type=gpu_type,
        image=image,
        cpus=cpus,
        memory_mb=_memory_mb(memory),
        environment=_environment(env),
        max_duration=time,
        priority_class=priority,
        tags=tag,
    )
    if print_:
        _print_job_file(_job_file(wanted, workdir), as_json=as_json)
        return
    with client() as skep:
        if workdir is not None:
            wanted = _with(wanted, archive=_uploaded(skep, workdir))
        if not name:
            wanted = _with(wanted, name=_unlike_earlier(wanted.name))
        _submitted(skep, skep.submit(_job_file(wanted)), follow=follow, as_json=as_json)


def _print_job_file(text: str, *, as_json: bool) -> None:
    if not as_json:
        print(text, end="")
        return
    import json

    from skep_jobfile.document import read

    print(json.dumps(read(text).data))


def clone(
    job: JobName,
    name: Annotated[str, typer.Option(help="Of the new job; else numbered.")] = "",
    follow: Follow = False,
    as_json: Json = False,
) -> None:
    """Submit your own job again, with its secrets and working files."""
    with client() as skep:
        made = skep.clone(find_job(skep, job).id, name)
        _submitted(skep, made, follow=follow, as_json=as_json)


def convert(file: File, format: FormatOption = "auto", as_json: Json = False) -> None:
    """Print a batch script of Slurm or a manifest of Kubeflow as a job file. What did not come
    along is told on standard error, with its line. Asks no server."""
    import json
    from dataclasses import asdict

    found = _converted(read_file(file), file, format)
    if as_json:
        print(json.dumps(asdict(found)))
        return
    print(found.text, end="")
    _tell_notes(found, file)


def _refuse_lost_storage(text: str, path: str) -> None:
    """Ends where the job would write to a storage that is not mounted. What is wrong with a file
    otherwise, the server tells."""
    if "storage" not in text.lower():
        return
    from skep_client import exits
    from skep_jobfile import STORAGE, InvalidJobFile, examine, located, notes, read

    try:
        document = read(text)
        job, _ = examine(document)
    except InvalidJobFile:
        return
    if job is None:
        return
    lost = [n for n in notes(job, document.data) if n.code == STORAGE]
    if not lost:
        return
    for problem in located(document, lost):
        say(problem_line(path, problem.as_dict()), err=True)
    say("Not submitted. To run it without that storage: skep submit --ignore-storage", err=True)
    raise typer.Exit(exits.FAILED)


def as_job_file(path: str, format: str = "auto") -> str:
    """The text of a job file, converted where it is something else."""
    if format not in FORMATS:
        raise typer.BadParameter(f"--format is one of {', '.join(FORMATS)}")
    text = read_file(path)
    if format == "skep" or (format == "auto" and not _is_foreign(text)):
        return text
    found = _converted(text, path, format)
    _tell_notes(found, path)
    return found.text


def _is_foreign(text: str) -> bool:
    from skep_jobfile.importers import detect

    return detect(text) is not None


def _converted(text: str, path: str, format: str) -> Converted:
    """Tells what is wrong, and ends, where it cannot be converted."""
    from typing import cast

    from skep_client import exits
    from skep_jobfile import InvalidJobFile
    from skep_jobfile.importers import convert

    try:
        return convert(text, cast("Format", format))
    except InvalidJobFile as error:
        for problem in error.problems:
            say(problem_line(path, problem.as_dict()), err=True)
        raise typer.Exit(exits.FAILED) from None


def _tell_notes(found: Converted, path: str) -> None:
    for note in found.notes:
        say(f"{path}:{note.line}: note: {note.message}", err=True)


@contextmanager
def _all_problems_told(path: str, *, as_json: bool) -> Iterator[None]:
    """A job file that the server finds bad is told about as `check` does."""
    from skep_client import exits
    from skep_client.errors import SkepError

    try:
        yield
    except SkepError as error:
        if error.code != "invalid_job" or as_json:
            raise
        for problem in error.details["errors"]:
            say(problem_line(path, problem), err=True)
        raise typer.Exit(exits.FAILED) from None


def _submitted(skep: Skep, job: Job, *, follow: bool, as_json: bool) -> None:
    from skep_client.cli.logs import show_log

    if as_json:
        print_json(job)
    else:
        say(f"Submitted {job.name} ({job.id})")
        say(f"  {skep.server}/jobs/{job.id}", err=True)
    if follow:
        with _goes_on(job):
            code = show_log(skep, job.id)
        raise typer.Exit(code)


@contextmanager
def _goes_on(job: Job) -> Iterator[None]:
    """Ctrl-C ends the following and not the job: say so."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"\n{job.name} goes on. Stop it with: skep stop {job.name}", err=True)
        raise


def _job_file(wanted: Run, workdir: Path | None = None) -> str:
    from skep_jobfile import InvalidJobFile
    from skep_jobfile.shorthand import job_file

    try:
        if workdir is None:
            return job_file(wanted)
        with _packed(workdir) as archive:
            return job_file(_with(wanted, archive=f"sha256:{archive.sha256}"))
    except InvalidJobFile as error:
        lines = [f"{problem.path}: {problem.message}" for problem in error.problems]
        raise typer.BadParameter("; ".join(lines)) from None


def _renamed(text: str, name: str, *, new_name: bool) -> str:
    """The job file under another name; all else in it stays as it was written."""
    from skep_jobfile import InvalidJobFile
    from skep_jobfile.document import read
    from skep_jobfile.editing import renamed

    try:
        document = read(text)
    except InvalidJobFile:
        return text  # the server says what is wrong with it
    wanted = name or str(document.data.get("name", ""))
    return renamed(document, _unlike_earlier(wanted) if new_name else wanted)


def _with(wanted: Run, **fields: str) -> Run:
    from dataclasses import replace

    return replace(wanted, **fields)  # type: ignore[arg-type]


def _unlike_earlier(name: str) -> str:
    """A job's name is unique among those of its owner."""
    import secrets

    return f"{name}-{secrets.token_hex(2)}"


def _memory_mb(text: str) -> int:
    from skep_jobfile.shorthand import memory_mb

    try:
        return memory_mb(text) if text else 0
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _environment(given: list[str]) -> dict[str, str]:
    found = {}
    for entry in given:
        name, joined, value = entry.partition("=")
        if not joined and name not in os.environ:
            raise typer.BadParameter(f"--env {name}: you have no such variable; write {name}=VALUE")
        found[name] = value if joined else os.environ[name]
    return found


@contextmanager
def _packed(folder: Path) -> Iterator[Archive]:
    import tempfile

    from skep_client.archives import pack

    with tempfile.TemporaryDirectory(prefix="skep-") as place:
        yield pack(folder, Path(place) / "files.tar.gz")


def _uploaded(skep: Skep, folder: Path) -> str:
    """The name of the archive in a job file."""
    from skep_client.cli.progress import bar

    with _packed(folder) as archive, bar(f"Sending {folder}", archive.size) as progress:
        skep.upload(archive, progress)
        progress(archive.size)
        return f"sha256:{archive.sha256}"
