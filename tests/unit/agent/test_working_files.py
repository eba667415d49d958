"""Archives come from the server once, whole or not at all, and do not fill the disk."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.support.archives import named, packed

from skep_agent.containers import RuntimeFailure
from skep_agent.protocol import WorkingFiles
from skep_agent.shell.working_files import Archives
from skep_agent.statedir import Identity

SOME, OTHER = packed(("a", b"some")), packed(("a", b"other"))


class Server(ThreadingHTTPServer):
    """Of archives, as the platform's."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.archives: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.status = 200


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        content = self.server.archives.get(self.path.rsplit("/", 1)[1], b"")
        allowed = self.headers["Authorization"] == "Bearer secret-n1"
        status = self.server.status if allowed else 401
        self.send_response(status if content else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    server.archives = {named(archive).sha256: archive for archive in (SOME, OTHER)}
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def cache(server: Server, path: Path, **more: int) -> Archives:
    url = f"http://127.0.0.1:{server.server_port}"
    return Archives(path / "archives", Identity(url, "n1", "id", "test", "secret-n1"), **more)


async def content(archives: Archives, wanted: WorkingFiles) -> bytes:
    with await archives.open(wanted) as archive:
        return archive.read()


async def refusal(archives: Archives, wanted: WorkingFiles) -> str:
    with pytest.raises(RuntimeFailure) as refused:
        await archives.open(wanted)
    return refused.value.code


async def test_an_archive_is_asked_for_once_however_many_want_it(
    server: Server, tmp_path: Path
) -> None:
    archives = cache(server, tmp_path)
    got = await asyncio.gather(*(content(archives, named(SOME)) for _ in range(5)))
    assert got == [SOME] * 5
    assert server.asked == [f"/api/v1/agent/files/{named(SOME).sha256}"]
    assert await content(cache(server, tmp_path), named(SOME)) == SOME
    assert len(server.asked) == 1
    (kept,) = (tmp_path / "archives").iterdir()
    assert kept.parent.stat().st_mode & 0o777 == 0o700


async def test_what_is_not_what_was_reserved_is_thrown_away(server: Server, tmp_path: Path) -> None:
    archives, wanted = cache(server, tmp_path), named(SOME)
    for wrong in (SOME[:-1], SOME + b"x", SOME[:-1] + b"x", OTHER):
        server.archives[wanted.sha256] = wrong
        assert await refusal(archives, wanted) == "files_unavailable"
        assert list((tmp_path / "archives").iterdir()) == []
    server.archives[wanted.sha256] = SOME
    assert await content(archives, wanted) == SOME


async def test_trouble_with_the_server_is_reported_by_codes(server: Server, tmp_path: Path) -> None:
    archives = cache(server, tmp_path)
    assert await refusal(archives, named(b"unknown")) == "spec_refused"
    server.status = 503
    assert await refusal(archives, named(SOME)) == "files_unavailable"
    unreachable = Identity("http://127.0.0.1:1", "n1", "id", "test", "secret-n1")
    assert await refusal(Archives(tmp_path / "x", unreachable), named(SOME)) == "files_unavailable"


@pytest.mark.parametrize(
    "changed",
    [{"sha256": "../../etc/passwd"}, {"sha256": "A" * 64}, {"size": 0}, {"size": 10**10}],
)
async def test_attack_30_a_name_that_is_no_hash_is_never_asked_for(
    server: Server, tmp_path: Path, changed: dict
) -> None:
    archives = cache(server, tmp_path)
    assert await refusal(archives, named(SOME).model_copy(update=changed)) == "spec_refused"
    assert server.asked == []


async def test_the_least_recently_used_are_evicted(server: Server, tmp_path: Path) -> None:
    third = packed(("a", b"third"))
    server.archives[named(third).sha256] = third
    limit = len(SOME) + len(OTHER) + len(third) - 1
    archives = cache(server, tmp_path, cache_bytes=limit)
    folder = tmp_path / "archives"
    for age, archive in ((200, SOME), (100, OTHER)):
        await content(archives, named(archive))
        kept = folder / named(archive).sha256
        os.utime(kept, (kept.stat().st_atime - age,) * 2)
    await content(archives, named(SOME))  # used again
    await content(archives, named(third))
    assert {path.name for path in folder.iterdir()} == {named(SOME).sha256, named(third).sha256}


async def test_what_an_agent_that_was_killed_left_behind_is_removed(
    server: Server, tmp_path: Path
) -> None:
    cache(server, tmp_path)
    (tmp_path / "archives" / f"{named(SOME).sha256}.part").write_bytes(b"half")
    assert await content(cache(server, tmp_path), named(SOME)) == SOME


async def test_an_archive_that_a_power_failure_cut_off_is_asked_for_again(
    server: Server, tmp_path: Path
) -> None:
    archives = cache(server, tmp_path)
    (tmp_path / "archives" / named(SOME).sha256).write_bytes(b"")
    assert await content(archives, named(SOME)) == SOME


async def test_nothing_is_kept_in_memory_of_archives_that_no_one_wants_now(
    server: Server, tmp_path: Path
) -> None:
    archives = cache(server, tmp_path)
    for archive in (SOME, OTHER):
        await content(archives, named(archive))
    gc.collect()
    assert not archives._downloads
