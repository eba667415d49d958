"""`skep fs`: files of storages."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skep_client import exits
from skep_client.cli import words
from skep_client.cli.common import Json, client, local_time, print_json, print_table, say
from skep_client.loglines import plain

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import StorageFile
    from skep_client.transfers import Place, Progress

LARGE = 8 * 1024 * 1024  # bytes of a file whose progress is shown
UNFINISHED = "a part of a copy that has not ended"
REMOTE = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,62}):(.*)", re.DOTALL)
There = Annotated[str, typer.Argument(metavar="STORAGE:PATH", help="As in team:results/a.")]
# What others of a folder can be copied after.
OF_ONE_FILE = frozenset({
    *("copy_in_progress", "file_changed", "file_not_found", "not_a_file", "not_a_folder"),
    *("not_sendable", "storage_file_denied", "storage_path_invalid", "upload_in_progress"),
    *("upload_offset", "upload_replaced"),
})  # fmt: skip
OF_ONE_FILE_HERE = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENAMETOOLONG})


class Copies:
    """What a command has copied, and what it could not. A folder is copied past one bad file."""

    def __init__(self, skep: Skep, *, recursive: bool) -> None:
        self.skep, self.recursive = skep, recursive
        self.done, self.exit_code = 0, exits.OK

    def copy(self, name: object, size: int | None, one: Callable[[Progress], bool]) -> None:
        """Copy a file by `one`, which returns whether the file stayed the same meanwhile. Raises
        what is wrong with more than one file of a folder."""
        from skep_client.cli.progress import bar
        from skep_client.errors import SkepError

        shown = size is None or size > LARGE
        try:
            with bar(f"Copying {plain(str(name))}", size) if shown else _unseen() as progress:
                same = one(progress)
        except SkepError as error:
            if not self.recursive or error.code not in OF_ONE_FILE:
                raise
            self.leave_out(f"{name}: {error.message} ({error.code})", exits.of_error(error))
        except OSError as error:
            if not self.recursive or error.errno not in OF_ONE_FILE_HERE:
                raise
            self.leave_out(f"{name}: {error.strerror}", exits.FAILED)
        else:
            self.done += 1
            if not same:
                say(f"{name} grew while it was copied: the copy is its beginning.", err=True)

    def leave_out(self, why: str, code: int = exits.OK) -> None:
        say(f"Left out {why}", err=True)
        self.exit_code = self.exit_code or code


def _unseen() -> nullcontext[Progress]:
    return nullcontext(lambda _: None)


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
            (f"{e.name}/" if e.type == "folder" else e.name, words.size(e.size) if e.type == "file"
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
    """Copy files between this machine and a storage. A file that was cut goes on where it ended
    when the command is repeated, if it has not changed since. With --recursive, files that cannot
    be copied are named and left out."""
    there, here = REMOTE.fullmatch(source), REMOTE.fullmatch(target)
    if bool(there) == bool(here):
        raise typer.BadParameter("One of the two is STORAGE:PATH, the other a path here.")
    with client() as skep:
        copies = Copies(skep, recursive=recursive)
        if here:
            _upload_all(copies, Path(source), _place(target), recursive)
        else:
            _download_all(copies, _place(source), Path(target), recursive)
    say(f"Copied {words.number(copies.done, 'file')}.")
    if copies.exit_code:
        raise typer.Exit(copies.exit_code)


def rm(
    place: There,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Also a folder that is not empty.")
    ] = False,
) -> None:
    """Remove a file or folder of a storage."""
    from skep_client import calls

    at = _place(place)
    asked = calls.following(calls.remove_storage_file(*at, recursive=recursive))
    with client() as skep:
        while not skep.run(asked).complete:
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
    say(f"{least}{words.size(found.size)} in {found.files} files and {found.folders} folders")


def _place(text: str) -> Place:
    from skep_client.transfers import Place

    found = REMOTE.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text} is not STORAGE:PATH.")
    return Place(found[1], found[2].strip("/"))


def _entries(skep: Skep, at: Place) -> Iterator[StorageFile]:
    from skep_client import calls

    after: str | None = ""
    while after is not None:
        page = skep.run(calls.following(calls.storage_files(*at, after=after, limit=1000)))
        yield from page.results
        after = page.next


# --- up


def _upload_all(copies: Copies, source: Path, target: Place, recursive: bool) -> None:
    from skep_client.transfers import is_part, upload

    def send(path: Path, place: Place) -> None:
        size = path.stat().st_size
        copies.copy(path, size, lambda progress: upload(copies.skep, path, place, progress))

    if not source.is_dir():
        if not source.is_file():
            why = "is no plain file" if source.exists() else "is not there"
            raise typer.BadParameter(f"{source} {why}.")
        send(source, _under(copies.skep, target, source.name))
        return
    if not recursive:
        raise typer.BadParameter(f"{source} is a folder: use --recursive.")
    top = _under(copies.skep, target, source.resolve().name)
    for path in sorted(source.rglob("*")):
        if is_part(path.name):
            copies.leave_out(f"{path}: {UNFINISHED}")
        elif path.is_file() and not path.is_symlink():
            send(path, top.inner(path.relative_to(source).as_posix()))
        elif not path.is_dir() or path.is_symlink():
            copies.leave_out(f"{path}: no plain file")


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


# --- down


def _download_all(copies: Copies, source: Place, target: Path, recursive: bool) -> None:
    name = source.path.rpartition("/")[2] or source.storage
    place = target / name if target.is_dir() else target
    if not place.parent.is_dir():
        raise typer.BadParameter(f"There is no folder {place.parent}: make it first.")
    if not _is_folder(copies.skep, source):
        _fetch(copies, source, place, None)
        return
    if not recursive:
        raise typer.BadParameter(f"{source} is a folder: use --recursive.")
    _download_folder(copies, source, place)


def _download_folder(copies: Copies, source: Place, target: Path) -> None:
    from skep_client.transfers import is_part

    target.mkdir(parents=True, exist_ok=True)
    for entry in _entries(copies.skep, source):
        # The server lists names; one that would lead out of the folder is never written.
        if "/" in entry.name or entry.name in ("", ".", ".."):
            continue
        place = source.inner(entry.name)
        if entry.type == "folder":
            _download_folder(copies, place, target / entry.name)
        elif is_part(entry.name):
            copies.leave_out(f"{place}: {UNFINISHED}")
        elif entry.type == "file":
            _fetch(copies, place, target / entry.name, entry.size)
        else:
            copies.leave_out(f"{place}: no plain file")


def _fetch(copies: Copies, source: Place, target: Path, size: int | None) -> None:
    from skep_client.transfers import download

    copies.copy(source, size, lambda progress: download(copies.skep, source, target, progress))
