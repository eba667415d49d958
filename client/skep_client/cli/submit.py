"""`skep submit`, `run`, `clone`, `convert`: all that makes a job."""

from __future__ import annotations

import os
import re
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
    default_image,
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
    from skep_jobfile.importers import Array, Converted, Format
    from skep_jobfile.shorthand import Run

File = Annotated[str, typer.Argument(metavar="FILE", help="Job file; '-' reads stdin.")]
Follow = Annotated[
    bool,
    typer.Option("--follow", "-f", help="Follow the log, and exit with an error if the job fails."),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format", help="Format of the file: auto, skep, slurm or kubeflow.", metavar="FORMAT"
    ),
]
WorkDir = Annotated[
    Path | None,
    typer.Option("--workdir", metavar="DIR", help="Upload this folder to /workspace of each task."),
]
After = Annotated[
    list[str],
    typer.Option(
        "--after",
        metavar="[CONDITION:]JOB",
        help="Wait for this job; may be repeated. CONDITION is afterok (default), afternotok, "
        "afterany or after.",
    ),
]
MAX_LOOKED_AT = 1000  # unfinished jobs, among which those of one name are sought
FORMATS = ("auto", "skep", "slurm", "kubeflow")


def add_to(app: typer.Typer) -> None:
    for command in (submit, run, clone, convert):
        app.command()(command)


def submit(
    file: File,
    format: FormatOption = "auto",
    name: Annotated[str, typer.Option(help="Use this name instead of the one in the file.")] = "",
    new_name: Annotated[
        bool,
        typer.Option("--force-name-suffix", help="Append letters that make the name unique."),
    ] = False,
    after: After = [],  # noqa: B006
    workdir: WorkDir = None,
    ignore_storage: Annotated[
        bool,
        typer.Option(
            "--ignore-storage", help="Submit even if a storage of the job is not mounted."
        ),
    ] = False,
    follow: Follow = False,
    as_json: Json = False,
) -> None:
    """Submit a job: a job file, a batch script of Slurm, or a manifest of Kubeflow."""
    texts, singleton = _job_files(file, format, name, new_name=new_name)
    if follow and len(texts) > 1:
        raise typer.BadParameter(f"--follow shows one job, and {file} has {len(texts)}")
    if after:
        texts = [_with_dependencies(text, after, file) for text in texts]
    if not ignore_storage:
        _refuse_lost_storage(texts[0], file)
    with client() as skep:
        if workdir is not None:
            from skep_jobfile.shorthand import with_archive

            archive = _uploaded(skep, workdir)
            texts = [with_archive(text, archive) for text in texts]
        if singleton and (unfinished := _unfinished(skep, singleton)):
            texts = [_with_dependencies(text, unfinished, file) for text in texts]
        for text in texts:
            with _problems_printed(file, as_json=as_json):
                job = skep.submit(text, ignore_storage=ignore_storage)
            _submitted(skep, job, follow=follow, as_json=as_json)


def _job_files(file: str, format: str, name: str, *, new_name: bool) -> tuple[list[str], str]:
    """Return the job files to submit: one, or one for each index of an array over several nodes;
    and their name without a suffix where they wait for other jobs of this name, else ""."""
    from skep_jobfile.importers import SINGLETON

    source = read_file(file)
    array = _array(source, file, format)
    if array is None:
        converted = _converted_if_foreign(file, format, source)
        text = converted.text
        waits = any(note.code == SINGLETON for note in converted.notes)
        singleton = (name or _name_of(text)) if waits else ""
        return [_renamed(text, name, new_name=new_name) if name or new_name else text], singleton
    texts: list[str] = []
    names: list[str] = []
    suffix = _unlike_earlier("") if new_name else ""
    for at, index in enumerate(array.indices):
        found = _converted(source, file, format, index)
        if not at:
            _print_notes(found, file)
        own = f"{name}-{index}" if name else _name_of(found.text)
        names.append(f"{own}{suffix}")
        text = _renamed(found.text, names[-1], new_name=False)
        if array.limit and at >= array.limit:
            # As many chains of jobs as may run at a time.
            text = _with_dependencies(text, [f"afterany:{names[at - array.limit]}"], file)
        texts.append(text)
    return texts, ""


def _unfinished(skep: Skep, name: str) -> list[str]:
    """Return, as dependencies, the caller's unfinished jobs of this name, with or without the
    suffix that makes it unique: the newest, as many as a job may wait for."""
    from itertools import islice

    from skep_jobfile.skep_extras import MAX_DEPENDENCIES

    mine = skep.jobs(search=name, owner=skep.me().username, state="WAITING,RUNNING,STOPPING")
    same = re.compile(rf"{re.escape(name)}(?:-[0-9a-f]{{4}})?")
    found = (job.id for job in islice(mine, MAX_LOOKED_AT) if same.fullmatch(job.name))
    return [f"afterany:{job}" for job in islice(found, MAX_DEPENDENCIES)]


def _array(text: str, path: str, format: str) -> Array | None:
    if format not in ("auto", "slurm") or not _is_foreign(text):
        return None
    from skep_jobfile.importers import array_over_nodes

    with _problems_end_it(path):
        return array_over_nodes(text)


def _name_of(text: str) -> str:
    from skep_jobfile.document import read

    return str(read(text).data["name"])


def run(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="Command, after `--`.")
    ],
    name: Annotated[str, typer.Option(help="Name of the job; default: from the command.")] = "",
    vc: VcName = "",
    gpus: Annotated[int, typer.Option(min=0, help="GPUs on each node.")] = 0,
    nodes: Annotated[
        int, typer.Option(min=1, help="Number of equal tasks that start together.")
    ] = 1,
    gpu_type: Annotated[str, typer.Option(help="GPU model, as `skep nodes` shows it.")] = "",
    image: Annotated[
        str, typer.Option(help="Container image; default: that of the VC, or ubuntu.")
    ] = "",
    cpus: Annotated[int, typer.Option(min=0, help="CPUs on each node; default: by its GPUs.")] = 0,
    memory: Annotated[str, typer.Option(help="Memory on each node, such as 64g.")] = "",
    env: Annotated[
        list[str],
        typer.Option(
            "--env", "-e", help="Environment variable: NAME=VALUE, or NAME to pass your own value."
        ),
    ] = [],  # noqa: B006
    time: Annotated[str, typer.Option(help="End the job after this time, such as 2h or 90m.")] = "",
    priority: Annotated[str, typer.Option(help="Priority class: prod, test or oppo.")] = "",
    after: After = [],  # noqa: B006
    workdir: WorkDir = None,
    tag: Annotated[list[str], typer.Option(help="Tag of the job. May be repeated.")] = [],  # noqa: B006
    print_: Annotated[
        bool, typer.Option("--print", help="Print the job file without submitting it.")
    ] = False,
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
        after=_dependencies(after),
    )
    if print_:
        _print_job_file(_job_file(wanted, workdir), as_json=as_json)
        return
    with client() as skep:
        if workdir is not None:
            wanted = _with(wanted, archive=_uploaded(skep, workdir))
        if not image:
            wanted = _with(wanted, image=default_image(skep, vc))
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
    name: Annotated[
        str, typer.Option(help="Name of the new job; default: the old one with a number.")
    ] = "",
    follow: Follow = False,
    as_json: Json = False,
) -> None:
    """Submit your own job again, with its secrets and working files."""
    with client() as skep:
        made = skep.clone(find_job(skep, job).id, name)
        _submitted(skep, made, follow=follow, as_json=as_json)


def convert(
    file: File,
    format: FormatOption = "auto",
    array_index: Annotated[
        int | None,
        typer.Option(
            "--array-index", help="Index of one job of an array whose jobs span several nodes."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a batch script of Slurm or a manifest of Kubeflow as a job file. What is not
    carried over is printed on standard error, with its line. Asks no server."""
    import json
    from dataclasses import asdict

    found = _converted(read_file(file), file, format, array_index)
    if as_json:
        print(json.dumps(asdict(found)))
        return
    print(found.text, end="")
    _print_notes(found, file)


def _refuse_lost_storage(text: str, path: str) -> None:
    """End where the job would write to a storage that is not mounted. What is wrong with a file
    otherwise, the server reports."""
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
    if job is not None and job.extras.skep.ignore_storages:
        return
    lost = [n for n in notes(job, document.data) if n.code == STORAGE]
    if not lost:
        return
    for problem in located(document, lost):
        say(problem_line(path, problem.as_dict()), err=True)
    say("Not submitted. To run it without that storage: skep submit --ignore-storage", err=True)
    raise typer.Exit(exits.FAILED)


def as_job_file(path: str, format: str = "auto", *, source: str | None = None) -> str:
    """The text of a job file, converted where it is something else. `source` is the content of the
    file where the caller has read it already."""
    text = read_file(path) if source is None else source
    return _converted_if_foreign(path, format, text).text


def _converted_if_foreign(path: str, format: str, text: str) -> Converted:
    """Return the job file of the text, with what was noted where it is something else."""
    from skep_jobfile.importers import Converted

    if format not in FORMATS:
        raise typer.BadParameter(f"--format is one of {', '.join(FORMATS)}")
    if format == "skep" or (format == "auto" and not _is_foreign(text)):
        return Converted(text, ())
    found = _converted(text, path, format)
    _print_notes(found, path)
    return found


def _is_foreign(text: str) -> bool:
    from skep_jobfile.importers import detect

    return detect(text) is not None


def _converted(text: str, path: str, format: str, array_index: int | None = None) -> Converted:
    """Print what is wrong, and end, where it cannot be converted."""
    from typing import cast

    from skep_jobfile.importers import convert

    with _problems_end_it(path):
        return convert(text, cast("Format", format), array_index)


@contextmanager
def _problems_end_it(path: str) -> Iterator[None]:
    """Print the problems of a text that is no job, and end."""
    from skep_client import exits
    from skep_jobfile import InvalidJobFile

    try:
        yield
    except InvalidJobFile as error:
        for problem in error.problems:
            say(problem_line(path, problem.as_dict()), err=True)
        raise typer.Exit(exits.FAILED) from None


def _print_notes(found: Converted, path: str) -> None:
    for note in found.notes:
        say(f"{path}:{note.line}: note: {note.message}", err=True)


@contextmanager
def _problems_printed(path: str, *, as_json: bool) -> Iterator[None]:
    """Print the problems of a job file that the server refuses, as `check` does."""
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
            code = show_log(skep, job.id, as_json=as_json)
        raise typer.Exit(code)


@contextmanager
def _goes_on(job: Job) -> Iterator[None]:
    """Say that the job goes on when Ctrl-C ends the following of its output."""
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


def _dependencies(after: list[str]) -> list[dict[str, str]]:
    from skep_jobfile.shorthand import dependency

    try:
        return [dependency(one) for one in after]
    except ValueError as error:
        raise typer.BadParameter(f"--after: {error}") from None


def _with_dependencies(text: str, after: list[str], path: str) -> str:
    from skep_jobfile.shorthand import with_dependencies

    wanted = _dependencies(after)
    with _problems_end_it(path):
        return with_dependencies(text, wanted)


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
    """Upload the folder, and return the name of the archive in a job file."""
    from skep_client.cli.progress import bar

    with _packed(folder) as archive, bar(f"Sending {folder}", archive.size) as progress:
        skep.upload(archive, progress)
        progress(archive.size)
        return f"sha256:{archive.sha256}"
