"""The state folder: one supervisor at a time, distinguished from others' folders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skep_platform.onebox.home import Home, write_private


def test_a_second_supervisor_finds_the_first_ones_lock(tmp_path):
    home = Home(tmp_path)
    home.prepare()
    lock = home.lock()
    assert lock is not None
    lock.sign()
    assert home.lock() is None
    assert home.supervisor_pid() == os.getpid()
    lock.release()
    assert home.supervisor_pid() is None


def test_a_killed_supervisor_leaves_no_lock_behind(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from skep_platform.onebox.home import Home\n"
        "home = Home(Path(sys.argv[1])); home.prepare(); home.lock().sign()\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=False)
    assert (tmp_path / "run/lock").read_text()
    assert Home(tmp_path).supervisor_pid() is None


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SKEP_HOME": "/srv/skep", "XDG_DATA_HOME": "/x", "HOME": "/h"}, "/srv/skep"),
        ({"XDG_DATA_HOME": "/x", "HOME": "/h"}, "/x/skep"),
        ({"HOME": "/h"}, "/h/.local/share/skep"),
    ],
)
def test_where_state_lies(monkeypatch, environment, expected):
    for name in ("SKEP_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Home.from_environment().root == Path(expected)


def test_folders_and_secrets_are_closed_to_others(tmp_path):
    home = Home(tmp_path / "skep")
    home.prepare()
    folders = [home.root, *(p for p in home.root.iterdir() if p.is_dir())]
    assert all(folder.stat().st_mode & 0o077 == 0 for folder in folders)
    write_private(home.operator_token, "secret")
    assert home.operator_token.stat().st_mode & 0o777 == 0o600


def test_a_status_is_read_whole_or_not_at_all(tmp_path):
    home = Home(tmp_path)
    home.prepare()
    assert home.read_status() == {}
    home.write_status({"phase": "ready"})
    home.write_status({"phase": "stopping"})
    assert home.read_status() == {"phase": "stopping"}


def test_a_grown_log_is_moved_away_and_its_writer_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("skep_platform.onebox.home.LOG_BYTES", 10)
    home = Home(tmp_path)
    home.prepare()
    log = home.log / "web.log"
    with log.open("a") as writer:
        print("more than ten bytes", file=writer, flush=True)
        home.bound_logs()
        print("new", file=writer, flush=True)
    home.bound_logs()
    assert log.read_text() == "new\n"
    assert log.with_suffix(".log.1").read_text() == "more than ten bytes\n"
