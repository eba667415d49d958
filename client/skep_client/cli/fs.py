"""`skep fs`: files of storages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from skep_client.cli.common import Json, client, local_time, print_json, print_table, say
from skep_client.cli.words import size as size_text

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import StorageFile

PIECE = 2 * 1024 * 1024
READ_PIECE = 8 * 1024 * 1024
PART = ".skep-part"
REMOTE = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,62}):(.*)", re.DOTALL)
There = Annotated[str, typer.Argument(metavar="STORAGE:PATH", help="As in team:results/a.")]


class Place(NamedTuple):
    """A path in a storage."""

    storage: str
    path: str

    def inner(self, name: str) -> Place:
        return Place(self.storage, f"{self.path}/{name}" if self.path else name)

    def __str__(self) -> str:
        return f"{self.storage}:{self.path}"


def add_to(app: typer.Typer) -> None:
    fs = typer.Typer(no_args_is_help=True, help="List, copy and remove files of storages.")
    for command in (ls, cp, rm, du):
        fs.command()(command)
    app.add_typer(fs, name="fs")


def ls(place: There, as_json: Json = False) -> None:
    """List a folder of a storage."""
    at = _place(place)
    with client() as skep:
        found = list(_entries(skep, at))
    if as_json:
        print_json(found)
        return
    print_table(
        ("NAME", "SIZE", "MODIFIED"),
        [
            (f"{e.name}/" if e.type == "folder" else e.name, size_text(e.size) if e.type == "file"
             else e.type, local_time(e.modified_at, seconds=False))
            for e in found
        ],
    )  # fmt: skip


def cp(
    source: Annotated[str, typer.Argument(help="STORAGE:PATH, or a path of this machine.")],
    target: Annotated[str, typer.Argument(help="The other one: a folder, or a new name.")],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Also folders with all that is in them.")
    ] = False,
) -> None:
    """Copy files between this machine and a storage. What was cut goes on where it ended when the
    command is repeated."""
    there, here = REMOTE.fullmatch(source), REMOTE.fullmatch(target)
    if bool(there) == bool(here):
        raise typer.BadParameter("One of the two is STORAGE:PATH, the other a path here.")
    with client() as skep:
        if here:
            count = _upload_all(skep, Path(source), _place(target), recursive)
        else:
            count = _download_all(skep, _place(source), Path(target), recursive)
    say(f"Copied {count} file{'' if count == 1 else 's'}.")


def rm(
    place: There,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Also a folder that is not empty.")
    ] = False,
) -> None:
    """Remove a file or folder of a storage."""
    at = _place(place)
    with client() as skep:
        while not skep.remove_storage_file(at.storage, at.path, recursive=recursive).complete:
            pass  # a large folder takes more than one request
    say(f"Removed {at}.")


def du(place: There, as_json: Json = False) -> None:
    """Count what lies below a folder of a storage."""
    at = _place(place)
    with client() as skep:
        found = skep.storage_usage(at.storage, at.path)
    if as_json:
        print_json(found)
        return
    least = "" if found.complete else "at least "
    say(f"{least}{size_text(found.size)} in {found.files} files and {found.folders} folders")


def _place(text: str) -> Place:
    found = REMOTE.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text} is not STORAGE:PATH.")
    return Place(found[1], found[2].strip("/"))


def _entries(skep: Skep, at: Place) -> Iterator[StorageFile]:
    after: str | None = ""
    while after is not None:
        page = skep.storage_files(at.storage, at.path, after=after, limit=1000)
        yield from page.results
        after = page.next


# --- up


def _upload_all(skep: Skep, source: Path, target: Place, recursive: bool) -> int:
    if not source.is_dir():
        _upload(skep, source, _under(skep, target, source.name))
        return 1
    if not recursive:
        raise typer.BadParameter(f"{source} is a folder: use --recursive.")
    top = _under(skep, target, source.resolve().name)
    count = 0
    for path in sorted(source.rglob("*")):
        if path.is_file() and not path.is_symlink():
            _upload(skep, path, top.inner(path.relative_to(source).as_posix()))
            count += 1
    return count


def _under(skep: Skep, target: Place, name: str) -> Place:
    """Return the place of a copy: in the target where that is a folder, else the target."""
    return target.inner(name) if _is_folder(skep, target) else target


def _is_folder(skep: Skep, at: Place) -> bool:
    from skep_client.errors import SkepError

    if not at.path:
        return True
    try:
        skep.storage_files(at.storage, at.path, limit=1)
    except SkepError as error:
        if error.code in ("file_not_found", "not_a_folder"):
            return False
        raise
    return True


def _upload(skep: Skep, source: Path, target: Place) -> None:
    """Send a file piece by piece, from where an upload of it was cut."""
    size = source.stat().st_size
    arrived = skep.storage_upload(target.storage, target.path).offset
    offset = arrived if arrived <= size else 0
    with source.open("rb") as file:
        while True:
            file.seek(offset)
            data = file.read(PIECE)
            # No data: it was cut while it was sent.
            last = not data or offset + len(data) >= size
            offset = skep.write_storage_file(
                target.storage, target.path, data, offset, last=last
            ).offset
            if last:
                return


# --- down


def _download_all(skep: Skep, source: Place, target: Path, recursive: bool) -> int:
    name = source.path.rpartition("/")[2] or source.storage
    place = target / name if target.is_dir() else target
    if not _is_folder(skep, source):
        _download(skep, source, place)
        return 1
    if not recursive:
        raise typer.BadParameter(f"{source} is a folder: use --recursive.")
    return _download_folder(skep, source, place)


def _download_folder(skep: Skep, source: Place, target: Path) -> int:
    target.mkdir(parents=True, exist_ok=True)
    count = 0
    for entry in _entries(skep, source):
        # The server lists names; one that would lead out of the folder is never written.
        if "/" in entry.name or entry.name in ("", ".", ".."):
            continue
        if entry.type == "folder":
            count += _download_folder(skep, source.inner(entry.name), target / entry.name)
        elif entry.type == "file":
            _download(skep, source.inner(entry.name), target / entry.name)
            count += 1
    return count


def _download(skep: Skep, source: Place, target: Path) -> None:
    """Fetch a file piece by piece into one beside its target, which takes its name at the end. That
    of another version of the file is never continued."""
    from skep_client.errors import SkepError

    about = skep.storage_usage(source.storage, source.path)
    version = f"{about.size}-{about.modified_at:%Y%m%d%H%M%S%f}" if about.modified_at else ""
    part = target.with_name(f".{target.name}.{version}{PART}")
    with part.open("ab") as file:
        while (offset := file.tell()) < about.size:
            data = skep.read_storage_file(source.storage, source.path, offset, READ_PIECE)
            if not data:
                part.unlink()
                message = f"{source} was written to while it was copied: copy it again."
                raise SkepError(409, "file_changed", message)
            file.write(data)
    part.replace(target)
