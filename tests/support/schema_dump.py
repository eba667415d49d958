"""What `pg_dump` says of a database, as statements that any database of this server can run."""

from __future__ import annotations

import re
import subprocess
from urllib.parse import urlsplit

import psycopg
from psycopg.sql import SQL, Identifier

from skep_platform.onebox import engines

# Of partitioned tables: which months there are depends on the day.
MONTHS = "*_[0-9][0-9][0-9][0-9]_[0-9][0-9]"
# Commands of psql, settings of its session, and what only an owner of the extension may say.
LEFT_OUT = re.compile(
    r"^(\\.*|--|-- (Name|Data for Name|PostgreSQL|Dumped|TOC).*|SET \w+ = .*;"
    r"|SELECT pg_catalog\.set_config\(.*|COMMENT ON EXTENSION .*)\n",
    re.MULTILINE,
)
TIME = re.compile(r"'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00'")
UUID = re.compile(r"'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'")


def schema_dump(url: str) -> str:
    """Return the tables of a database with the rows that migrations put into them. The times of the
    rows are those of the run, and their UUIDs new ones.

    PostgreSQL prints some expressions in another way once it has read what it printed before. So
    the dump is that of a second database, which was made from the dump of the first one.
    """
    name = f"{urlsplit(url).path.strip('/')}_again"
    again = create_database(name, url)
    with psycopg.connect(again) as connection:
        connection.execute("SET LOCAL check_function_bodies = false")
        connection.execute(_dump(url))  # type: ignore[arg-type]
    text = _dump(again)
    drop_database(name, url)
    return text


def _dump(url: str) -> str:
    command = [
        str(engines.find_binaries().postgres.with_name("pg_dump")),
        *("--no-owner", "--no-privileges", "--inserts", "--rows-per-insert=1000"),
        *(f"--exclude-table={MONTHS}", url),
    ]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = LEFT_OUT.sub("", text)
    for found, instead in ((TIME, "now()"), (UUID, "gen_random_uuid()")):
        text = found.sub(instead, text)
    return re.sub(r"\n{2,}", "\n\n", text).strip() + "\n"


def create_database(name: str, url: str) -> str:
    """Create an empty database on the server of `url`; one of this name is dropped before. Returns
    its address."""
    drop_database(name, url)
    with _server(url) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def drop_database(name: str, url: str) -> None:
    with _server(url) as connection:
        connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))


def _server(url: str) -> psycopg.Connection:
    server = urlsplit(url)._replace(path="/postgres").geturl()
    return psycopg.connect(server, autocommit=True)
