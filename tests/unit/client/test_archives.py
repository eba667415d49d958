"""Folders as archives, and files out of archives that no one vouches for."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from skep_client.archives import ignored, pack
from skep_client.client import AsyncSkep, Skep
from skep_client.copying import unpack
from skep_client.errors import SkepError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    (made / "pkg/sub").mkdir(parents=True)
    (made / "pkg/a.py").write_text("print(1)\n")
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "run.sh").chmod(0o700)
    (made / "link").symlink_to("pkg/a.py")
    (made / ".git").mkdir()
    (made / ".git/HEAD").write_text("ref")
    return made


def members(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as tar:
        return {member.name: member for member in tar}


def test_the_same_files_make_the_same_archive_whenever_and_whoever(folder, tmp_path):
    first = pack(folder, tmp_path / "1.tar.gz")
    os.utime(folder / "pkg/a.py", (1, 1))
    (folder / "run.sh").chmod(0o755)
    time.sleep(0)
    second = pack(folder, tmp_path / "2.tar.gz")
    assert first.sha256 == second.sha256
    found = members(second.path)
    assert sorted(found) == ["link", "pkg", "pkg/a.py", "pkg/sub", "run.sh"]
    assert (found["run.sh"].mode, found["pkg/a.py"].mode) == (0o755, 0o644)
    assert {(m.uid, m.gid, m.mtime, m.uname) for m in found.values()} == {(0, 0, 0, "")}


def test_another_content_makes_another_archive(folder, tmp_path):
    first = pack(folder, tmp_path / "1")
    (folder / "pkg/a.py").write_text("print(2)\n")
    assert pack(folder, tmp_path / "2").sha256 != first.sha256


def test_ignored_files_stay_here(folder, tmp_path):
    (folder / ".gitignore").write_text("run.sh\n")
    (folder / ".skepignore").write_text("pkg/sub/\n*.pyc\n/link\n")
    (folder / "pkg/a.pyc").write_text("")
    assert sorted(members(pack(folder, tmp_path / "1").path)) == [
        ".gitignore", "pkg", "pkg/a.py", "run.sh",
    ]  # fmt: skip


@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", "pkg/../../x"])
def test_links_that_lead_out_are_reported(folder, tmp_path, target):
    (folder / "bad").symlink_to(target)
    with pytest.raises(SkepError, match="bad links to"):
        pack(folder, tmp_path / "1")


IGNORES = [
    ("*.log", "a/b.log", False, True),
    ("/*.log", "a/b.log", False, False),
    ("build/", "build", False, False),
    ("build/", "x/build", True, True),
    ("a/**/z", "a/b/c/z", False, True),
    ("a/**/z", "a/z", False, True),
    ("data/**", "data/x/y", False, True),
    ("?.txt", "ab.txt", False, False),
    ("[a-c].txt", "b.txt", False, True),
    ("[!a-c].txt", "b.txt", False, False),
    ("\\#x", "#x", False, True),
    ("# comment", "# comment", False, False),
    ("a*b", "a/b", False, False),
    ("foo.*", "foo.bar", False, True),
]


@pytest.mark.parametrize(("line", "path", "is_folder", "expected"), IGNORES)
def test_patterns_mean_what_they_mean_to_git(tmp_path, line, path, is_folder, expected):
    (tmp_path / ".gitignore").write_text(f"{line}\n")
    assert ignored(tmp_path).match_file(f"{path}/" if is_folder else path) is expected


def test_a_later_pattern_takes_back_what_an_earlier_one_left_out(tmp_path):
    (tmp_path / ".skepignore").write_text("*.pt\n!best.pt\nbest.pt.old\n")
    assert not ignored(tmp_path).match_file("best.pt")
    assert ignored(tmp_path).match_file("last.pt")


def archive(*entries: tuple[str, bytes, str, int]) -> io.BytesIO:
    """(name, type, link target, size) each."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, kind, target, size in entries:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode = kind, target, 0o7777
            member.size = size
            tar.addfile(member, io.BytesIO(b"x" * size) if size else None)
    stream.seek(0)
    return stream


def same(name: str) -> str:
    return name


FILE, LINK, HARD, DEVICE = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE


def test_files_folders_and_links_within_are_made(tmp_path):
    stream = archive(
        ("d/e", tarfile.DIRTYPE, "", 0), ("d/f", FILE, "", 3), ("d/e/l", LINK, "../f", 0),
        ("latest", LINK, "d", 0),
    )  # fmt: skip
    assert unpack(stream, tmp_path, same) == []
    assert (tmp_path / "d/f").read_bytes() == b"xxx"
    assert (tmp_path / "d/f").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "d/e/l").read_bytes() == b"xxx"
    assert (tmp_path / "latest").is_dir()


@pytest.mark.parametrize("name", ["/etc/cron.d/x", "../x", "a/../../x", "a/../x"])
def test_names_that_lead_out_stop_it(tmp_path, name):
    with pytest.raises(SkepError) as error:
        unpack(archive((name, FILE, "", 1)), tmp_path / "in", same)
    assert error.value.code == "unsafe_archive"
    assert not (tmp_path / "x").exists()


LEFT_OUT = [
    ("l", LINK, "/etc"), ("l", LINK, "../.."), ("l", LINK, "d/../../x"), ("h", HARD, "/etc/passwd"),
    ("h", HARD, "a"), ("dev", DEVICE, ""), ("fifo", tarfile.FIFOTYPE, ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "target"), LEFT_OUT)
def test_what_could_do_harm_is_left_out_and_reported(tmp_path, name, kind, target):
    stream = archive(("a", FILE, "", 1), (name, kind, target, 0))
    assert unpack(stream, tmp_path, same) == [name]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a"]


def test_nothing_is_written_through_a_link_of_the_archive(tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "in"
    outside.mkdir()
    inside.mkdir()
    stream = archive(("d", LINK, "e", 0), ("d/x", FILE, "", 1), ("e", LINK, "d", 0))
    unpack(stream, inside, same)
    assert (inside / "d/x").read_bytes() == b"x"
    assert list(outside.iterdir()) == []
    assert not (inside / "d").is_symlink()


def test_nothing_is_written_through_a_link_that_was_there(tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "in"
    outside.mkdir()
    inside.mkdir()
    (inside / "d").symlink_to(outside)
    with pytest.raises(SkepError, match="is a link here"):
        unpack(archive(("d/x", FILE, "", 1)), inside, same)
    assert list(outside.iterdir()) == []
    (inside / "f").symlink_to(outside / "target")
    unpack(archive(("f", FILE, "", 1)), inside, same)
    assert not (outside / "target").exists()
    assert (inside / "f").read_bytes() == b"x"


def test_a_copy_that_is_cut_off_leaves_what_was_there(tmp_path):
    (tmp_path / "f").write_bytes(b"before")
    (tmp_path / "l").symlink_to("f")
    for name in "fl":
        whole = archive((name, FILE, "", 5000)).getvalue()
        with pytest.raises(SkepError, match="unexpected end"):
            unpack(io.BytesIO(whole[:4000]), tmp_path, same)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "l"]
    assert (tmp_path / "l").is_symlink()
    assert (tmp_path / "f").read_bytes() == b"before"


def test_a_file_that_only_its_owner_may_read_stays_so(tmp_path):
    (tmp_path / "f").touch(0o600)
    unpack(archive(("f", FILE, "", 1)), tmp_path, same)
    assert (tmp_path / "f").read_bytes() == b"x"
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


def test_what_is_no_file_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "f")
    reader = os.open(tmp_path / "f", os.O_RDONLY | os.O_NONBLOCK)
    try:
        unpack(archive(("f", FILE, "", 3)), tmp_path, same)
        assert os.read(reader, 10) == b"xxx"
    finally:
        os.close(reader)
    assert (tmp_path / "f").is_fifo()


@pytest.mark.parametrize("data", [b"", b"no archive", b"\0" * 700, os.urandom(5000)])
def test_bytes_that_are_no_archive_do_nothing(tmp_path, data):
    with contextlib.suppress(SkepError):
        unpack(io.BytesIO(data), tmp_path, same)
    assert list(tmp_path.iterdir()) == []


KNOWN = {"sha256": "0" * 64, "size": 1, "unpacked_size": 1, "files": 1}


def server(stored: set[str]) -> Callable[[httpx.Request], httpx.Response]:
    answers = iter([503, 201])

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            known = request.url.path.rpartition("/")[2] in stored
            body = KNOWN if known else {"code": "not_found", "message": "No."}
            return httpx.Response(200 if known else 404, json=body)
        content = request.read()
        assert request.headers["Content-Length"] == str(len(content))
        assert request.headers["Content-Type"] == "application/gzip"
        status = next(answers)
        if status == 201:
            stored.add(hashlib.sha256(content).hexdigest())
        return httpx.Response(status, json=KNOWN)

    return answer


def test_an_archive_is_sent_once_and_again_after_a_restart(folder, tmp_path):
    stored: set[str] = set()
    packed, reported = pack(folder, tmp_path / "1"), []
    transport = httpx.MockTransport(server(stored))
    with Skep("http://skep.test", "t", retry_delays_s=(0,), transport=transport) as skep:
        assert skep.upload(packed, reported.append)
        assert reported[-1] == packed.size
        assert stored == {packed.sha256}
        assert not skep.upload(packed)


async def test_an_archive_is_sent_by_the_async_client_too(folder, tmp_path):
    stored: set[str] = set()
    packed = pack(folder, tmp_path / "1")

    async def answer(request: httpx.Request) -> httpx.Response:
        await request.aread()
        return server_answer(request)

    server_answer = server(stored)
    transport = httpx.MockTransport(answer)
    client = AsyncSkep("http://skep.test", "t", retry_delays_s=(0,), transport=transport)
    async with client as skep:
        assert await skep.upload(packed)
        assert stored == {packed.sha256}
