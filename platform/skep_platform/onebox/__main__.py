"""`python -m skep_platform.onebox up|down|status|manage|backup`: what `skep up` and its like run.

Exit codes: 0 done; 1 it failed; 3 nothing runs here (status), or it runs already (up).
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skep_platform.env_settings import (
    ALLOW_HTTP,
    is_loopback,
    public_url_problem,
    secret_key_problem,
)
from skep_platform.onebox.home import Home, say
from skep_platform.onebox.options import Options, add_arguments, from_arguments

FAILED = 1
OTHERWISE = 3
STOP_WITHIN_S = 20.0


def main() -> int:
    given = _parser().parse_args()
    home = Home.from_environment()
    try:
        return int(given.run(home, given))
    except BrokenPipeError:  # as in `skep status | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def up(home: Home, given: argparse.Namespace) -> int:
    options = from_arguments(given)
    if pid := home.supervisor_pid():
        say(f"Skep runs already: {home.read_status().get('url')} (process {pid}, {home.root})")
        return OTHERWISE
    if problem := _start_problem(options):
        say(f"Skep did not start: {problem}")
        return FAILED
    if not is_loopback(options.host):
        say(
            f"Warning: {options.host} is open to others, without TLS. Passwords, tokens and secrets"
            " of jobs cross the network in the clear, and who reads them can run anything on every"
            " node. For more than a try-out put a proxy with TLS in front: SKEP_PUBLIC_URL."
        )
    if options.detach and not given.report_to:
        return _detach(home)
    return _supervise(home, options, _reporter(given.report_to))


def down(home: Home, given: argparse.Namespace) -> int:
    """Stop the supervisor, which stops all the others; returns when all are gone."""
    pid = home.supervisor_pid()
    if pid is None:
        say(f"Skep does not run in {home.root}")
        return 0
    _report_jobs(home, stop=given.stop_jobs)
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WITHIN_S
    while home.supervisor_pid() == pid:
        if time.monotonic() > deadline:
            say(f"It did not stop within {STOP_WITHIN_S:.0f} s: killed")
            os.kill(pid, signal.SIGKILL)
            return FAILED
        time.sleep(0.02)
    say("Skep is stopped")
    return 0


def status(home: Home, given: argparse.Namespace) -> int:
    pid = home.supervisor_pid()
    found: dict[str, Any] = home.read_status() if pid else {"phase": "stopped", "children": []}
    if given.json:
        print(json.dumps({"home": str(home.root), **found}))
    elif pid:
        print(f"{found['phase']}  {found['url']}  process {pid}  {home.root}")
        for child in found["children"]:
            state = f"process {child['pid']}" if child["pid"] else "starting"
            print(f"  {child['name']:<22} {state:<18} {child['restarts']} restarts")
    else:
        print(f"stopped  {home.root}")
    return 0 if pid else OTHERWISE


def manage(home: Home, given: argparse.Namespace) -> int:
    """Run one of Django's commands in the running Skep, such as `changepassword admin`."""
    if home.supervisor_pid() is None:
        say(f"Skep does not run in {home.root}")
        return OTHERWISE
    environment = {**os.environ, **json.loads(home.environment.read_text())}
    command = [sys.executable, "-m", "django", *given.command]
    return subprocess.run(command, env=environment, check=False).returncode


def backup(home: Home, given: argparse.Namespace) -> int:
    """Make a backup of the running Skep, list and verify backups, restore one into a new home."""
    from skep_platform.onebox import backups

    try:
        return _BACKUP[given.what](home, given)
    except backups.BackupError as error:
        say(f"{error} ({error.code})")
        return FAILED


def _create_backup(home: Home, given: argparse.Namespace) -> int:
    from skep_platform.onebox import backups

    print(backups.create(home, given.to, keys=given.keys, keep=given.keep))
    if given.keys is None:
        say("The keys are not in it. Once, and after each change of them: --keys FILE")
    return 0


def _list_backups(home: Home, given: argparse.Namespace) -> int:
    from skep_platform.onebox import backups

    found = [backups.summary(each) for each in backups.backups(given.folder)]
    if given.json:
        print(json.dumps(found))
        return 0
    for each in found:
        said = each["problem"] or f"{each['created_at']}  {each['bytes']:>14,} bytes"
        print(f"{each['path']}  {said}")
    if not found:
        say(f"No backup is in {given.folder}")
    return 0


def _verify_backup(home: Home, given: argparse.Namespace) -> int:
    from skep_platform.onebox import backups

    found = backups.verify(given.backup)
    print(f"{given.backup} is whole: Skep {found.version}, {found.created_at}")
    return 0


def _restore_backup(home: Home, given: argparse.Namespace) -> int:
    from skep_platform.onebox import backups

    found = backups.restore(home, given.backup, keys=given.keys)
    print(f"Restored into {home.root}: Skep as of {found.created_at}. Now: skep up")
    if found.stores != "local":
        say(f"Logs and files are in {found.stores}: set SKEP_LOG_STORE to it before")
    return 0


_BACKUP: dict[str, Callable[[Home, argparse.Namespace], int]] = {
    "create": _create_backup,
    "list": _list_backups,
    "verify": _verify_backup,
    "restore": _restore_backup,
}


def _add_backup(command: argparse.ArgumentParser) -> None:
    kinds = command.add_subparsers(dest="what", required=True, metavar="|".join(_BACKUP))
    made = kinds.add_parser("create", help="back up the running Skep; prints the new folder")
    made.add_argument("--to", type=Path, required=True, help="folder in which backups lie")
    made.add_argument("--keys", type=Path, help="write the keys that seal secrets to this file")
    made.add_argument("--keep", type=int, default=0, help="keep the newest so many; 0: all")
    listed = kinds.add_parser("list", help="the backups in a folder, newest first")
    listed.add_argument("folder", type=Path)
    listed.add_argument("--json", action="store_true")
    verified = kinds.add_parser("verify", help="check that a backup is whole and can be read")
    verified.add_argument("backup", type=Path)
    restored = kinds.add_parser("restore", help="fill a new $SKEP_HOME from a backup")
    restored.add_argument("backup", type=Path)
    restored.add_argument("--keys", type=Path, help="the file that create --keys wrote")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="skep", description="A whole Skep on this machine. State lies in $SKEP_HOME."
    )
    commands = parser.add_subparsers(required=True, metavar="up|down|status|manage|backup")
    texts = {up: "start it", down: "stop it", status: "what runs", manage: "an admin command"}
    texts[backup] = "back it up, and restore it"
    for run, text in texts.items():
        command = commands.add_parser(run.__name__, help=text, description=text)
        command.set_defaults(run=run)
        if run is up:
            add_arguments(command)
            command.add_argument("--report-to", type=int, help=argparse.SUPPRESS)
        if run is status:
            command.add_argument("--json", action="store_true")
        if run is down:
            command.add_argument("--stop-jobs", action="store_true", help="stop all jobs first")
        if run is backup:
            _add_backup(command)
        if run is manage:
            command.add_argument("command", nargs=argparse.REMAINDER)
    return parser


def _report_jobs(home: Home, *, stop: bool) -> None:
    from skep_client.errors import SkepError
    from skep_platform.onebox.own_api import active_jobs

    try:
        left = active_jobs(home, stop=stop)
    except (SkepError, OSError) as error:
        say(f"Cannot find out which jobs run: {error}")
        return
    if left:
        names = ", ".join(job.name for job in left[:5]) + (", …" if len(left) > 5 else "")
        one = len(left) == 1
        jobs = "1 job goes on in its" if one else f"{len(left)} jobs go on in their"
        say(f"{jobs} containers: {names}")
        minutes = home.read_status().get("planned_absence_s", 0) / 60
        say(f"  `skep up` within {minutes:.0f} minutes takes them over; later they are stopped")
        say("  and run again. `skep down --stop-jobs` would stop them now")


def _start_problem(options: Options) -> str:
    """What the settings of the environment would be refused for."""
    if options.wal_archive and os.environ.get("SKEP_DATABASE_URL"):
        return (
            "--wal-archive is for the PostgreSQL of this box. With SKEP_DATABASE_URL set "
            "archive_command in yours; see docs/backup.md."
        )
    key, url = os.environ.get("SKEP_SECRET_KEY", ""), os.environ.get("SKEP_PUBLIC_URL", "")
    allow_http = os.environ.get(ALLOW_HTTP, "") == "1"
    problem = secret_key_problem(key) if key else ""
    return problem or (public_url_problem(url, allow_http) if url else "")


def _supervise(home: Home, options: Options, report: Callable[[dict[str, Any]], None]) -> int:
    import asyncio

    from skep_agent.join import JoinFailed
    from skep_client.errors import SkepError
    from skep_platform.onebox.engines import EngineFailed, EngineMissing
    from skep_platform.onebox.supervisor import StartFailed, Supervisor

    home.prepare()
    lock = home.lock()
    if lock is None:
        say("Skep was started by someone else this moment")
        return OTHERWISE
    lock.sign()
    try:
        asyncio.run(Supervisor(home, options).run(report))
    except (StartFailed, EngineFailed, EngineMissing, JoinFailed, SkepError) as error:
        say(f"Skep did not start: {error}")
        return FAILED
    return 0


def _detach(home: Home) -> int:
    """Start a supervisor of its own session, and wait for its word that all is ready."""
    home.prepare()
    log = home.log / "supervisor.log"
    reader, writer = os.pipe()
    # Appending, as `Home.bound_logs` cuts what is long: it would go on behind a hole otherwise.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    with open(os.open(log, flags, 0o600), "wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "skep_platform.onebox", *sys.argv[1:], f"--report-to={writer}"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=[writer],
            cwd="/",
        )
    os.close(writer)
    report = _read_all(reader)
    if not report:
        say(log.read_text(errors="replace").strip())
        return child.wait() or FAILED
    announce(json.loads(report))
    return 0


def _reporter(descriptor: int | None) -> Callable[[dict[str, Any]], None]:
    if descriptor is None:
        return announce
    os.set_inheritable(descriptor, False)

    def report(ready: dict[str, Any]) -> None:
        os.write(descriptor, json.dumps(ready).encode())
        os.close(descriptor)

    return report


def announce(ready: dict[str, Any]) -> None:
    """Print the address and the login. The password is shown this once and stored nowhere."""
    say(f"Skep is ready: {ready['url']}")
    if login := ready["login"]:
        say(f"  login     {login['username']}")
        say(f"  password  {login['password']}   (shown only now)")
    else:
        say("  login     as shown at the first start; anew: skep manage changepassword admin")
    _log_in(ready["url"], Path(ready["home"]) / Home(Path()).operator_token.name)


def _log_in(server: str, token_file: Path) -> None:
    """The owner of the box may use `skep` at once."""
    from skep_client import config

    login = config.Login(server, token_file.read_text())
    if config.stored_token(server) != login.token:
        say(f"  skep is logged in as its administrator ({config.remember(login)})")


def _read_all(descriptor: int) -> bytes:
    read = b""
    while select.select([descriptor], [], []) and (piece := os.read(descriptor, 65536)):
        read += piece
    os.close(descriptor)
    return read


if __name__ == "__main__":
    sys.exit(main())
