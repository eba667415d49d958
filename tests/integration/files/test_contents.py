"""SECURITY 30: what an archive may hold, and what it may do while it is looked at."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_platform.files import contents
from skep_platform.files.contents import ArchiveRefused, Contents, inspect


def member(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=kind, linkname=target)


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.DIRTYPE, mode=0o755)


def packed(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=form) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def look(archive: bytes) -> Contents:
    return inspect(io.BytesIO(archive))


def refused(archive: bytes) -> str:
    with pytest.raises(ArchiveRefused) as error:
        look(archive)
    return error.value.message


GOOD = [
    folder("src"),
    member("src/train.py", b"print('hello')", mode=0o755),
    member("./notes.txt", b"x" * 100_000),
    member("a b/ünï/" + "long" * 60, b"1"),
    link("src/latest", "train.py"),
    link("src/up", "../notes.txt"),
    link("here", "."),
    link("hard", "src/train.py", tarfile.LNKTYPE),
    member("empty"),
]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_a_working_directory_is_taken(form):
    found = look(packed(*GOOD, form=form))
    assert found.files == len(GOOD)
    assert found.unpacked_size == len(gzip.decompress(packed(*GOOD, form=form)))


def test_an_archive_as_gnu_tar_makes_it(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "x").write_bytes(os.urandom(10_000))
    (tmp_path / "deep" / "link").symlink_to("er/x")
    os.link(tmp_path / "deep" / "er" / "x", tmp_path / "deep" / "hard")
    archive = tmp_path / "a.tgz"
    assert os.system(f"tar -C {tmp_path} -czf {archive} deep") == 0
    assert look(archive.read_bytes()).files == 5


@pytest.mark.parametrize(
    "members",
    [
        [member("/etc/passwd", b"x")],
        [member("../x", b"x")],
        [member("a/../../x", b"x")],
        [folder("..")],
        [link("a", "/etc")],
        [link("a", "..")],
        [link("a", "../x")],
        [link("a/b", "../../x")],
        [link("a/b", "c/../../../x")],
        [link("l", "."), link("m", "l/../etc")],  # `l/..` is above the root, though it looks inside
        [link("l", "."), link("l/m", "../x")],
        [link("d", "e"), member("d/x", b"x")],
        [link("d", "e"), member("d", b"x")],
        [link("d", "e"), link("d", "f")],
        [link("./d", "e"), member("d/./x", b"x")],
        [link("h", "/etc/shadow", tarfile.LNKTYPE)],
        [link("h", "../x", tarfile.LNKTYPE)],
        [link("d", "e"), link("h", "d/x", tarfile.LNKTYPE)],
        [link("", ".")],
        [member("device", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
        [member("disk", type=tarfile.BLKTYPE)],
        [member("pipe", type=tarfile.FIFOTYPE)],
        [member("sparse", type=tarfile.GNUTYPE_SPARSE)],
        [member("old", type=tarfile.CONTTYPE)],
        [member("n" * 1025, b"x")],
        [link("l", "t" * 1025)],
    ],
)
def test_30_nothing_leads_out_and_nothing_is_a_device(members):
    assert refused(packed(*members))


def test_30_the_one_to_blame_is_named():
    with pytest.raises(ArchiveRefused) as error:
        look(packed(member("good", b"1"), member("../evil", b"2")))
    assert error.value.code == "archive_refused"
    assert error.value.details == {"name": "../evil"}


@pytest.mark.parametrize(
    "archive",
    [
        b"",
        b"PK\x03\x04",
        b"\x1f\x8b",
        gzip.compress(b"", mtime=0),  # a time in it would give each xdist worker another test
        gzip.compress(b"no tar" * 1000, mtime=0),
        packed(*GOOD)[:-20],
        packed(*GOOD)[:-6] + b"\0\0\0\0\0\0",
        zlib.compress(b"x"),
    ],
)
def test_what_is_no_whole_gzipped_tar_file_is_refused(archive):
    assert refused(archive)


def test_31_a_bomb_is_measured_while_it_goes_off(monkeypatch):
    monkeypatch.setattr(contents, "MAX_UNPACKED_BYTES", 50 * 1024**2)
    bomb = packed(member("zeros", bytes(60 * 1024**2)))
    assert len(bomb) < 100_000
    assert _peak(lambda: refused(bomb)) < 20 * 1024**2


def test_31_zeros_behind_the_end_count_too(monkeypatch):
    monkeypatch.setattr(contents, "MAX_UNPACKED_BYTES", 50 * 1024**2)
    archive = packed(member("x", b"1")) + gzip.compress(bytes(60 * 1024**2))
    assert "at most 50 MiB" in refused(archive)


def test_31_a_header_is_not_believed_to_be_huge():
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE):
        info = tarfile.TarInfo("x")
        info.type, info.size = kind, 512 * 1024**2
        bomb = gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(64 * 1024**2))
        assert _peak(lambda bomb=bomb: refused(bomb)) < 20 * 1024**2


def test_31_there_are_only_so_many_members(monkeypatch):
    monkeypatch.setattr(contents, "MAX_ARCHIVE_MEMBERS", 100)
    members = [member(f"f{number}") for number in range(101)]
    assert look(packed(*members[:100])).files == 100
    assert "at most 100 members" in refused(packed(*members))


def test_31_many_members_take_little_memory():
    archive = packed(*[member(f"folder/file{number}") for number in range(20_000)])
    assert _peak(lambda: look(archive)) < 8 * 1024**2


@given(st.binary(max_size=3000))
def test_garbage_is_refused_and_nothing_else_happens(garbage):
    for archive in (garbage, gzip.compress(garbage)):
        assert refused(archive)


@given(st.data())
def test_a_damaged_archive_is_judged_not_crashed_on(data):
    whole = bytearray(gzip.decompress(packed(*GOOD)))
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(0, 6000))] = data.draw(st.integers(0, 255))
    with suppress(ArchiveRefused):
        look(gzip.compress(bytes(whole)))


def _peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
