"""Attack 30: what an uploaded archive may hold, as the node sees it."""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.archives import entry, folder, packed, symlink
from tests.support.examples import examples

from skep_agent import archives
from skep_agent.archives import rewritten
from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.files import Owner

OWNER = Owner(1000, 100)


def members(archive: bytes) -> list[tarfile.TarInfo]:
    plain = b"".join(rewritten(io.BytesIO(archive), OWNER))
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        return tar.getmembers()


def refusal(archive: bytes) -> str:
    with pytest.raises(RuntimeFailure) as refused:
        members(archive)
    assert refused.value.code == "spec_refused"
    return refused.value.message


def test_files_folders_and_links_within_come_through() -> None:
    archive = packed(
        folder("./src"),
        ("src/train.py", b"print()\n"),
        symlink("src/same.py", "train.py"),
        symlink("src/deep", "./../src"),
        entry("src/again.py", tarfile.LNKTYPE, "src/train.py"),
        ("a/b/ümläut", b"x" * 1000),
        symlink("later", "not/yet/there"),
    )
    plain = b"".join(rewritten(io.BytesIO(archive), OWNER))
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        assert tar.getnames()[:2] == ["src", "src/train.py"]
        assert tar.extractfile("a/b/ümläut").read() == b"x" * 1000  # type: ignore[union-attr]
        assert tar.extractfile("src/again.py").read() == b"print()\n"  # type: ignore[union-attr]
        assert tar.getmember("src/deep").linkname == "../src"
        assert {(m.uid, m.gid, m.uname) for m in tar} == {(1000, 100, "")}


def test_modes_lose_what_others_could_use() -> None:
    (file, directory) = members(packed(entry("a", mode=0o7777), folder("b", mode=0o2000)))
    assert (file.mode, directory.mode) == (0o755, 0o700)


OUT = {
    "an absolute name": ("/etc/passwd", b""),
    "a name outside": ("../out", b""),
    "a detour to the outside": ("a/../../out", b""),
    "a detour": ("a/../b", b""),
    "a link to an absolute name": symlink("a", "/etc"),
    "a link to the outside": symlink("a", ".."),
    "a link to the outside from below": symlink("a/b", "../.."),
    "a link by a detour": symlink("a/b", "../c/../.."),
    "a link to nothing": symlink("a", ""),
    "a link in place of all": symlink(".", "x"),
    "a file in place of all": entry("."),
    "a hard link to the outside": entry("a", tarfile.LNKTYPE, "../x"),
    "a hard link to an absolute name": entry("a", tarfile.LNKTYPE, "/etc/passwd"),
    "a hard link to what is not there": entry("a", tarfile.LNKTYPE, "not-there"),
    "a device": entry("a", tarfile.CHRTYPE, devmajor=1, devminor=3),
    "a disk": entry("a", tarfile.BLKTYPE),
    "a pipe": entry("a", tarfile.FIFOTYPE),
    "what no one knows": entry("a", tarfile.CONTTYPE),
    "a very long name": ("a" * 5000, b""),
}


@pytest.mark.parametrize("bad", OUT)
def test_attack_30_what_leads_out_is_refused(bad: str) -> None:
    refusal(packed(("before", b""), OUT[bad]))


@pytest.mark.parametrize(
    "bad",
    [
        [symlink("d", "x"), ("d/file", b"")],
        [symlink("d", "x"), ("d", b"")],
        [("d/file", b""), symlink("d", "x")],
        [("d", b""), symlink("d", "x")],
        [("d", b""), ("d/file", b"")],
        [symlink("d", "x"), entry("e", tarfile.LNKTYPE, "d")],
        [symlink("d", "a/b"), symlink("e", "d/../..")],
    ],
)
def test_attack_30_links_cannot_be_combined_to_lead_out(bad) -> None:
    refusal(packed(*bad))


def test_attack_31_bombs_are_refused_while_they_are_read(monkeypatch) -> None:
    monkeypatch.setattr(archives, "MAX_ARCHIVE_MEMBERS", 5)
    assert "members" in refusal(packed(*[(f"f{n}", b"") for n in range(6)]))
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 100_000)
    assert "bytes" in refusal(packed(("a", b"x" * 60_000), ("b", b"x" * 60_000)))
    lies = entry("a")
    lies.size = 50 * 1024**4
    assert "bytes" in refusal(gzip.compress(lies.tobuf()))


def test_attack_31_a_header_is_never_read_whole_however_long_it_says_it_is() -> None:
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
        header = entry("x", kind)
        header.size = 8 * 1024**3
        assert "header" in refusal(gzip.compress(header.tobuf()))


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"no archive at all",
        gzip.compress(b"no archive at all" * 100),
        packed(("a", b"x" * 100_000))[:-20],
        packed(("a", b"x" * 100_000))[:200],
    ],
    ids=["empty", "no gzip", "no tar", "without its end", "cut"],
)
def test_a_damaged_archive_is_refused(damaged: bytes) -> None:
    assert "damaged" in refusal(damaged)


parts = st.sampled_from(["a", "b", "..", ".", ""])
paths = st.lists(parts, min_size=1, max_size=4).map("/".join)
any_member = st.one_of(
    paths.filter(bool).map(lambda name: (name, b"x")),
    paths.filter(bool).map(folder),
    st.builds(symlink, paths.filter(bool), paths),
    st.builds(lambda name, to: entry(name, tarfile.LNKTYPE, to), paths.filter(bool), paths),
)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(any_member, max_size=6))
def test_attack_30_whatever_is_accepted_stays_in_its_folder(tmp_path_factory, archive) -> None:
    """Unpacked by a program that follows every link."""
    try:
        accepted = b"".join(rewritten(io.BytesIO(packed(*archive)), OWNER))
    except RuntimeFailure:
        return
    root = tmp_path_factory.mktemp("unpacked") / "inner"
    root.mkdir()
    with tarfile.open(fileobj=io.BytesIO(accepted)) as tar:
        tar.extraction_filter = lambda member, _: member  # as it was before Python 3.12
        for member in tar:
            member.uid, member.gid = -1, -1
            tar.extract(member, root, set_attrs=False)
    assert list(root.parent.iterdir()) == [root]
    for path in root.rglob("*"):
        try:
            real = path.resolve()
        except RuntimeError:  # links in a circle
            continue
        assert real.is_relative_to(root.resolve())
