"""PostgreSQL and Valkey as children of ours, from their wheels: own user, password, no port.

They listen on unix sockets in folders of mode 0700 only. A task in the node's network reaches every
port of the loopback; against a TCP port it needs no password to take all connections that
PostgreSQL has, by opening sockets and saying nothing.

The wheels' own launchers are never used: as root they create users and open every parent folder.

Layout below the state folder: `postgres/` and `valkey/`, owned by the engines' user, and `secrets/`
with files of mode 0600. The state folder itself may be closed to that user (a home of mode 0700):
each engine is put into its own folder before it changes user, and knows it as OWN_FOLDER.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT
from typing import TextIO
from urllib.parse import quote

from skep_platform.onebox.binaries import (
    Binaries,
    find_binaries,
    unprivileged_user,
    within_reach,
)
from skep_platform.onebox.children import Program, RunAs, die_with_parent, spawn
from skep_platform.onebox.home import write_private

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
    """One PostgreSQL server below `state`. Without `durable` a power cut may lose it: for tests."""

    state: Path
    binaries: Binaries
    run_as: RunAs | None
    durable: bool = True

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


def prepare(state: Path, *, durable: bool = True) -> Engines:
    """Initialise both engines below `state`. Raises EngineMissing and EngineFailed."""
    state.mkdir(parents=True, exist_ok=True)
    run_as = unprivileged_user()
    binaries = within_reach(find_binaries(), run_as)
    postgres = Postgres(state, binaries, run_as, durable)
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
    """The secret of this name, made on first use and kept in a file of mode 0600."""
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
    """Below /run or /tmp; one that somebody else made, to lead us astray, is passed over."""
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
