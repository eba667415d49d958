"""Gzipped tar archives, good and bad."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile

from skep_agent.protocol import WorkingFiles


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644, **more):
    """A member's header; `more` sets any other field of it."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    for field, value in more.items():
        setattr(info, field, value)
    return info


def folder(name: str, mode: int = 0o755) -> tarfile.TarInfo:
    return entry(name, tarfile.DIRTYPE, mode=mode)


def symlink(name: str, target: str) -> tarfile.TarInfo:
    return entry(name, tarfile.SYMTYPE, target)


def packed(*members: tarfile.TarInfo | tuple[str, bytes]) -> bytes:
    """Of headers, and of files as (name, content)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member, io.BytesIO(bytes(member.size)))
            else:
                info = entry(member[0])
                info.size = len(member[1])
                tar.addfile(info, io.BytesIO(member[1]))
    return gzip.compress(buffer.getvalue(), 1, mtime=0)


def named(archive: bytes, path: str = "/workspace") -> WorkingFiles:
    """As the platform describes it to an agent."""
    digest = hashlib.sha256(archive).hexdigest()
    return WorkingFiles(sha256=digest, size=len(archive), path=path)
