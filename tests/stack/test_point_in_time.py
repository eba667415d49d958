"""A box whose table was dropped, restored as it was a moment before, by the commands of the
documentation."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.support.stack import Stack, environment_of, eventually, stack, start

pytestmark = [pytest.mark.stack, pytest.mark.long]

PAGE = Path(__file__).parents[2] / "docs" / "backup.md"
OPTIONS = ("--nodes=1", "--gpus=2", "--runtime=mock")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that PostgreSQL's user can enter, which one of pytest is not."""
    folder = Path(tempfile.mkdtemp(prefix="skep-test-wal-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def commands() -> list[str]:
    """Return the blocks of the section: the base backup, and the restore."""
    _, _, section = PAGE.read_text().partition("## Restore the database as of any point in time\n")
    return re.findall(r"```bash\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)


def run(box: Stack, block: str, place: Path, moment: str = "") -> None:
    """Run a block as it is written, with the places and the moment of the test."""
    there = block.replace("/srv/", f"{place}/").replace("2026-11-27 09:00:00+00", moment)
    environment = environment_of(box.home)
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", there],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_dropped_table_comes_back_by_the_commands_of_the_documentation(place: Path):
    base, restore = commands()
    archive = f"--wal-archive={place / 'wal'}"
    with stack(*OPTIONS, archive) as box:
        run(box, base, place)
        job = box.submit(name="before-the-accident", command="sleep 600")
        with psycopg.connect(box.database_url, autocommit=True) as database:
            [(moment,)] = database.execute("SELECT clock_timestamp()::text").fetchall()
            database.execute("DROP TABLE jobs_job CASCADE")
            [(last,)] = database.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchall()
        eventually(lambda: (place / "wal" / last).exists(), 60)

        run(box, restore, place, moment)
        assert box.process.wait(60) == 0
        # What was there before is out of reach: all that comes back is of the base and the log.
        shutil.rmtree(box.home.engines / "postgres.before")
        port = int(box.url.rpartition(":")[2])
        box.process = start(box.home, port, *OPTIONS, archive)

        with box.client() as skep:
            assert skep.job(str(job.id)).name == "before-the-accident"
        [(recovering, timeline)] = box.query(
            "SELECT pg_is_in_recovery(), timeline_id FROM pg_control_checkpoint()"
        )
        assert not recovering
        assert timeline > 1
        assert box.submit(name="after-the-restore", command="echo on").name == "after-the-restore"
