"""Files out of a tar stream that nobody vouches for.

Only plain files, folders and links within are made; a link is made when all files lie, so that no
file is ever written through one. What is there already is not followed either.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from skep_client.errors import SkepError

PIECE_BYTES = 256 * 1024


def unpack(stream: IO[bytes], into: Path, rename: Callable[[str], str]) -> list[str]:
    """`rename` gives each member's path below `into`. Returns the names that were left out, such
    as devices and links that lead out. Raises SkepError `unsafe_archive` or `not_an_archive`."""
    into = into.resolve()
    left_out: list[str] = []
    links: list[tuple[Path, str]] = []
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                path = into / _inner(rename(member.name))
                if member.isdir():
                    _make_folder(into, path)
                elif member.isreg():
                    _make_file(tar, member, into, path)
                elif member.issym() and _stays(into, path, member.linkname):
                    links.append((path, member.linkname))
                else:
                    left_out.append(member.name)
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise SkepError(400, "not_an_archive", f"No tar archive: {error}") from None
    for path, target in links:
        _make_link(into, path, target)
    return left_out


def _inner(name: str) -> str:
    steps = [step for step in name.split("/") if step not in ("", ".")]
    if name.startswith("/") or ".." in steps or "\0" in name:
        raise SkepError(400, "unsafe_archive", f"The task sent a file {name[:200]!r}: stopped.")
    return "/".join(steps)


def _stays(into: Path, path: Path, target: str) -> bool:
    steps = [step for step in target.split("/") if step not in ("", ".")]
    climbs = steps.count("..")
    # Past another link, `..` would lead anywhere: it may stand only at the front.
    if target.startswith("/") or "\0" in target or ".." in steps[climbs:]:
        return False
    lexically = os.path.normpath(path.parent / target)
    return lexically == str(into) or lexically.startswith(f"{into}/")


def _make_folder(into: Path, path: Path) -> None:
    """With those above it. Refuses to go through a link."""
    at = into
    for step in path.relative_to(into).parts:
        at /= step
        if at.is_symlink():
            message = f"{at} is a link here: nothing is written through it."
            raise SkepError(400, "unsafe_archive", message)
        at.mkdir(exist_ok=True)


def _make_file(tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path, path: Path) -> None:
    _make_folder(into, path.parent)
    if path.is_symlink():
        path.unlink()
    source = tar.extractfile(member)
    assert source is not None, "it is a plain file"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    mode = 0o755 if member.mode & 0o100 else 0o644
    with open(os.open(path, flags, mode), "wb") as file:
        shutil.copyfileobj(source, file, PIECE_BYTES)
    with suppress(OverflowError, ValueError):  # a moment that no file system knows
        os.utime(path, (member.mtime, member.mtime))


def _make_link(into: Path, path: Path, target: str) -> None:
    _make_folder(into, path.parent)
    if path.is_symlink() or path.is_file():
        path.unlink()
    if not path.exists():
        path.symlink_to(target)
