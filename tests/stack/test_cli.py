"""The command line against a whole Skep: real containers, a real terminal, real sockets."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.support.stack import Stack, eventually

pytestmark = [pytest.mark.stack, pytest.mark.docker]

Cli = Callable[..., subprocess.CompletedProcess[bytes]]
SMALL = ("--gpus", "1", "--cpus", "1", "--memory", "128m")
SERVES = "mkdir -p /out/d; echo data > /out/d/f; ln -s d /out/l; ln -s /etc/passwd /out/bad; "
SERVES += "httpd -f -p 8080 -h /out"


@pytest.fixture(scope="module")
def environment(skep: Stack) -> dict[str, str]:
    return {**os.environ, "SKEP_SERVER": skep.url, "SKEP_TOKEN": skep.token, "COLUMNS": "200"}


@pytest.fixture(scope="module")
def cli(environment: dict[str, str]) -> Cli:
    def run(
        *words: str, data: bytes = b"", **options: object
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command(*words),
            env=environment,
            input=data,
            capture_output=True,
            timeout=180,
            check=False,
            **options,  # type: ignore[call-overload]
        )

    return run


def command(*words: str) -> list[str]:
    return [str(Path(sys.executable).with_name("skep")), *words]


@pytest.fixture(scope="module")
def service(skep: Stack, cli: Cli, image: str) -> Iterator[str]:
    """A job of two tasks that stays: the name."""
    name = f"service-{os.getpid()}"
    made = cli(
        "run", "--name", name, "--nodes", "2", "--image", image, *SMALL, "--json", "--", SERVES
    )
    assert made.returncode == 0, made.stderr
    job_id = json.loads(made.stdout)["id"]
    skep.wait_for_job(job_id, lambda job: job.state == "RUNNING")
    ready = cli("exec", "-T", name, "--", "sh", "-c", "until [ -e /out/bad ]; do sleep 0.1; done")
    assert ready.returncode == 0, ready.stderr
    yield name
    cli("stop", name)


def test_a_command_runs_as_a_job_and_its_log_is_followed(cli, image):
    done = cli("run", "--image", image, *SMALL, "-e", "WORD=hello", "--tag", "t:1", "-f", "--",
               "echo $WORD; exit 3")  # fmt: skip
    assert done.returncode == 1
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("Submitted echo-")
    assert lines[1] == "worker-0 | hello"
    assert b"FAILED" in done.stderr
    name = lines[0].split()[1]
    assert name in cli("ls", "--tag", "t:1").stdout.decode()
    shown = cli("show", name).stdout.decode()
    assert "FAILED" in shown
    assert "1 task, 1 GPU" in shown


def test_a_folder_lies_where_the_command_starts(cli, image, tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/word").write_text("sent along\n")
    (tmp_path / "big.bin").write_bytes(b"x")
    (tmp_path / ".gitignore").write_text("*.bin\n")
    done = cli("run", "--image", image, *SMALL, "--workdir", str(tmp_path), "-f", "--",
               "cat sub/word; ls big.bin; pwd")  # fmt: skip
    assert b"worker-0 | sent along" in done.stdout, done.stderr
    assert b"worker-0 | /workspace" in done.stdout
    assert b"No such file" in done.stdout


def test_finding_j7_a_batch_script_over_nodes_runs_as_in_slurm(cli, python_image):
    """The script once on the first node, its step on all, and what that prints is seen."""
    script = (
        f"#!/bin/sh\n#SBATCH -N 2 --ntasks-per-node=2 --mem=64\n"
        f"#SBATCH --container-image={python_image}\n#SBATCH --mail-type=END\necho once\n"
        "srun sh -c 'echo rank $SLURM_PROCID of $SLURM_NTASKS'\n"
        "echo heard $(srun sh -c 'echo $SLURM_PROCID' | sort)\n"
    )
    done = cli("submit", "-", "-f", data=script.encode())
    assert done.returncode == 0, done.stderr
    assert b"-:4: note: --mail-type" in done.stderr
    found = sorted(line.partition("| ")[2] for line in done.stdout.decode().splitlines()[1:])
    assert found == ["heard 0 1 2 3", "once", *(f"rank {rank} of 4" for rank in range(4))]


def test_a_clone_runs_again(cli, image):
    made = cli("run", "--image", image, *SMALL, "--json", "-f", "--", "echo once more")
    name = json.loads(made.stdout.splitlines()[0])["name"]
    again = cli("clone", name, "-f")
    assert again.returncode == 0, again.stderr
    assert b"once more" in again.stdout


def test_a_process_beside_the_task_ends_with_its_code(cli, service):
    done = cli("exec", service, "--", "sh", "-c", "cat; echo err >&2; exit 7", data=b"in")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"in", b"err\n")


def test_bytes_go_both_ways_at_once(cli, service):
    data = os.urandom(5_000_000)
    done = cli("exec", "-T", service, "-t", "worker-1", "--", "cat", data=data)
    assert done.returncode == 0, done.stderr
    assert done.stdout == data


def test_a_shell_at_a_terminal_knows_its_size_and_takes_ctrl_c(environment, service):
    with Terminal(command("ssh", service), environment) as shell:
        shell.types("stty size; echo $((40 + 2))\r", "42")
        shell.resize(33, 99)
        wait = 'until [ "$(stty size)" = "33 99" ]; do sleep 0.1; done; echo re\'\'sized\r'
        shell.types(wait, "resized")
        # Of a process of its own: a shell that is between two commands forgets a Ctrl-C.
        shell.types("sh -c 'echo slee\"\"ping; exec sleep 1000'\r", "sleeping\r")
        shell.types("\x03", "# ")
        shell.types("echo st''opped\r", "stopped")
        shell.types("exit 5\r", "")
        assert shell.exit_code() == 5


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.execvpe(argv[0], argv, environment)
        self.resize(24, 80)
        self._said = b""

    def __enter__(self) -> Terminal:
        self._read_until(lambda: self._said.rstrip(b" ").endswith((b"#", b"# \x1b[6n", b"J")))
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def types(self, keys: str, expected: str) -> None:
        self._said = b""
        os.write(self._fd, keys.encode())
        self._read_until(lambda: expected.encode() in self._said)

    def exit_code(self) -> int:
        self._read_until(lambda: False, ends=True)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def _read_until(self, holds: Callable[[], bool], *, ends: bool = False) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline, self._said
            if select.select([self._fd], [], [], 0.2)[0]:
                try:
                    data = os.read(self._fd, 4096)
                except OSError:
                    data = b""
                if not data:
                    assert ends, self._said
                    return
                self._said += data


def test_a_port_of_a_task_is_reached_here(environment, service):
    argv = command("port-forward", service, "0:8080", "0:8081")
    with subprocess.Popen(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        opened, closed = (process.stdout.readline().split()[0] for _ in range(2))
        # Not where Skep's own pages are: cookies are kept by host, for all its ports.
        assert not opened.startswith("127.0.0.1:")
        for _ in range(3):
            with urlopen(f"http://{opened}/d/f", timeout=30) as answer:
                assert answer.read() == b"data\n"
        with pytest.raises(OSError) as refused:
            urlopen(f"http://{closed}/", timeout=30)
        assert not isinstance(refused.value, TimeoutError)  # the client is notified, too
        assert "port_closed" in process.stderr.readline()
        process.terminate()


def test_files_are_copied_both_ways(cli, service, tmp_path: Path):
    folder = tmp_path / "src"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/a").write_bytes(os.urandom(1_000_000))
    assert cli("cp", str(folder), f"{service}:worker-1:/tmp/up/").returncode == 0
    back = cli("cp", f"{service}:worker-1:/tmp/up/src", str(tmp_path / "back"))
    assert back.returncode == 0, back.stderr
    assert (tmp_path / "back/sub/a").read_bytes() == (folder / "sub/a").read_bytes()

    out = cli("cp", f"{service}:/out", ".", cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    assert (tmp_path / "out/l/f").read_text() == "data\n"
    assert not (tmp_path / "out/bad").is_symlink()
    assert b"out/bad" in out.stderr
    missing = cli("cp", f"{service}:/none", str(tmp_path / "none"))
    assert missing.returncode == 5
    assert b"No such file" in missing.stderr


def test_top_says_how_busy_the_gpus_are(cli, service):
    def busy() -> bool:
        jobs = json.loads(cli("top", "--json").stdout)
        return any(job["job"] == service and job["gpu_percent"] for job in jobs)

    eventually(busy, 60)
    assert b"worker-1" in cli("top", service, "--once").stdout


def test_the_shell_completes_names_of_jobs(environment, service):
    done = subprocess.run(
        command(),
        env={**environment, "_SKEP_COMPLETE": "complete_bash", "COMP_WORDS": "skep show serv",
             "COMP_CWORD": "2"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert service in done.stdout.split()


def test_who_cannot_be_reached_is_shown_why(cli, image):
    made = cli("run", "--image", image, *SMALL, "--json", "-f", "--", "true")
    name = json.loads(made.stdout.splitlines()[0])["name"]
    done = cli("exec", name, "--", "ls")
    assert done.returncode == 5
    assert b"not_running" in done.stderr
    assert cli("exec", "no-such-job", "--", "ls").returncode == 4
