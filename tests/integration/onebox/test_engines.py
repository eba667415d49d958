"""PostgreSQL and Valkey as our children: private, and started again after any death."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis
from tests.support.stack import eventually

from skep_platform.onebox import engines
from skep_platform.onebox.__main__ import _start_problem
from skep_platform.onebox.children import RunAs
from skep_platform.onebox.options import Options

PATH = os.environ["PATH"]
START_AND_DIE = """
import os, sys
from pathlib import Path
from skep_platform.onebox import engines
state = Path(sys.argv[1])
running = engines.RunningEngines(engines.prepare(state, durable=False), state)
running.start()
print(*(process.pid for process in running._processes), flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def running(tmp_path):
    """In a folder of mode 0700 whose owner, when root, is not the engines' user."""
    engine_pair = engines.RunningEngines(engines.prepare(tmp_path, durable=False), tmp_path)
    engine_pair.start()
    yield engine_pair
    engine_pair.stop()


def test_both_answer_with_their_password_and_refuse_without(running):
    url = running.engines.postgres.url()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("skep",)
    wrong = url.replace(engines.secret(running.engines.postgres.state, "postgres"), "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)
    assert redis.Redis.from_url(running.engines.valkey.url()).ping()
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(unix_socket_path=str(running.engines.valkey.socket)).ping()


def test_secrets_are_in_closed_files_and_on_no_command_line(running, tmp_path):
    names = {"postgres", "valkey"}
    files = {path.name: path for path in (tmp_path / "secrets").iterdir()}
    assert files.keys() == names
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files.values())
    secrets = [path.read_text() for path in files.values()]
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            shown = process.read_text()
        except OSError:
            continue
        assert not any(secret in shown for secret in secrets)


def test_they_never_run_as_root(running):
    for process in running._processes:
        assert Path(f"/proc/{process.pid}").stat().st_uid != 0


def test_finding_s5_no_engine_listens_on_a_port(running):
    """A task in the node's network reaches whatever does, the loopback too."""
    listening = subprocess.run(["ss", "-Hlntup"], capture_output=True, text=True, check=True).stdout
    for process in running._processes:
        assert f"pid={process.pid}," not in listening


def test_finding_s14_others_cannot_even_knock_at_an_engine(running):
    """Without a word and without a password, 480 open sockets were enough to keep everybody out of
    PostgreSQL. The folders are closed, so no one else of this machine can open one."""
    postgres, valkey = running.engines.postgres, running.engines.valkey
    sockets = [postgres.data / engines.POSTGRES_SOCKET, valkey.folder / engines.VALKEY_SOCKET]
    for path in sockets:
        assert path.is_socket()
        assert path.parent.stat().st_mode & 0o077 == 0
        assert path.stat().st_mode & 0o077 == 0
    if os.geteuid() == 0:  # else the engines are ours
        for path in sockets:
            with pytest.raises(PermissionError):
                knock_as_a_stranger(path)


def test_finding_s14_a_path_that_is_too_long_for_a_socket_is_shortened_safely(tmp_path):
    """The kernel takes 107 bytes."""
    deep = tmp_path / ("very-long-name-of-a-folder-" * 3) / ("another-one-" * 4)
    server = engines.RunningEngines(engines.prepare(deep, durable=False), tmp_path)
    server.start()
    try:
        with psycopg.connect(server.engines.postgres.url()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert redis.Redis.from_url(server.engines.valkey.url()).ping()
        short = server.engines.valkey.socket.parent
        assert len(str(short)) < 64
        assert short.parent.stat().st_mode & 0o077 == 0
        assert short.resolve() == server.engines.valkey.folder
    finally:
        server.stop()


def test_finding_s14_a_folder_that_a_stranger_made_is_not_used(tmp_path, monkeypatch):
    """In /tmp anybody may make one of the name that we would take."""
    trap = tmp_path / f"skep-{os.geteuid()}"
    trap.mkdir()
    trap.chmod(0o777)
    monkeypatch.setattr(engines, "SHORT_FOLDERS", (str(tmp_path),))
    folder = engines._own_short_folder()
    assert folder != trap
    assert folder.stat().st_mode & 0o077 == 0
    folder.rmdir()


def test_a_killed_parent_takes_them_along_and_data_survives(tmp_path):
    for _ in range(2):  # the second start finds what the first left behind
        command = [sys.executable, "-c", START_AND_DIE, tmp_path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        pids = [int(word) for word in done.stdout.split()]
        eventually(lambda: not any(map(alive, pids)), 60)  # noqa: B023


def test_a_killed_server_is_started_over_its_leftovers_and_what_was_reported_is_kept(tmp_path):
    server = engines.prepare(tmp_path).postgres
    process = engines.start_engine(server, tmp_path)
    with psycopg.connect(server.url()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    process.kill()
    process.wait()
    process = engines.start_engine(server, tmp_path)
    with psycopg.connect(server.url()) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
    process.send_signal(server.program().stop_signal)
    assert process.wait(timeout=60) == 0


def test_a_cut_off_initialisation_is_begun_anew(tmp_path):
    (tmp_path / "postgres.new").mkdir()
    (tmp_path / "postgres.new/PG_VERSION").write_text("18")
    assert engines.prepare(tmp_path, durable=False).postgres.data.is_dir()
    assert not (tmp_path / "postgres.new").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs engines as someone else")
def test_programs_in_a_closed_place_are_copied_to_an_open_one(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(engines, "open_to_all", lambda path: False)
    found = engines.within_reach(engines.find_binaries(), engines.unprivileged_user())
    for program in (found.initdb, found.postgres, found.valkey):
        assert tmp_path in program.parents
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        assert version.stdout


def test_a_missing_engine_is_reported_with_what_to_install(monkeypatch):
    monkeypatch.setattr(engines, "_package", lambda name: None)
    monkeypatch.setattr(engines.shutil, "which", lambda name: None)
    with pytest.raises(engines.EngineMissing, match="SKEP_REDIS_URL"):
        engines._valkey_server()


def test_a_segment_is_archived_once_and_another_of_its_name_is_refused(tmp_path):
    folder = tmp_path / "it's 100% $HOME"
    folder.mkdir()
    segment = tmp_path / "segment"

    def archive(content: bytes) -> int:
        segment.write_bytes(content)
        command = engines.archive_command(folder)
        # As PostgreSQL does it.
        for mark, text in (("%p", str(segment)), ("%f", "000001"), ("%%", "%")):
            command = command.replace(mark, text)
        return subprocess.run(["sh", "-c", command], check=False, env={"PATH": PATH}).returncode

    assert archive(b"first") == 0
    assert archive(b"first") == 0, "after a crash it is asked for again"
    assert archive(b"other") != 0
    assert [file.read_bytes() for file in folder.iterdir()] == [b"first"]


def test_an_archive_that_postgres_cannot_enter_is_refused_by_the_name_of_the_folder(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    user = RunAs(65534, 65534, "nobody")
    with pytest.raises(engines.EngineFailed, match=re.escape(f"cannot enter {closed}:")):
        engines.prepare_archive(closed / "wal", user)
    assert not (closed / "wal").exists()


def test_an_archive_is_not_for_a_database_of_ones_own(monkeypatch):
    monkeypatch.setenv("SKEP_DATABASE_URL", "postgresql://elsewhere/skep")
    problem = _start_problem(Options(wal_archive=Path("/srv/wal")))
    assert "archive_command" in problem
    assert _start_problem(Options()) == ""


def knock_as_a_stranger(path: Path) -> None:
    """By a relative name: not even the folders above it need let the stranger through."""
    before = Path.cwd()
    os.chdir(path.parent)
    os.seteuid(65533)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path.name)
    finally:
        os.seteuid(0)
        os.chdir(before)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
