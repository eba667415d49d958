"""Copies of `skep fs cp` when files, servers and file systems do not behave: the copy is of one
version, or it is refused."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from tests.integration.storage.test_transfers import (  # noqa: F401
    AT,
    NEW,
    OLD,
    PIECE,
    Cut,
    cut,
    line,
    skep,
    source,
    team,
    written,
)

from skep_client import transfers
from skep_client.errors import SkepError
from skep_client.transfers import Place, download, upload, version_of

pytestmark = pytest.mark.django_db
SIZE = len(OLD)
HERE_ALONE = Path("/sys/class/net/lo/mtu")  # its size is said to be a page


def appended(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def cut_at(line, method: str, number: int, what: Callable[[], object]) -> None:  # noqa: F811
    """Cut a copy at this request, and make the line whole again."""
    line.before = cut(line.nth(method, number))
    with pytest.raises(Cut):
        what()
    line.before, line.sent, line.read = lambda _: None, [], []


class TestUpload:
    def test_of_a_file_that_is_written_anew_and_larger_is_refused(self, skep, line, team, source):  # noqa: F811
        third = line.nth("PUT", 3)
        larger = NEW + b"more"
        line.before = lambda request: written(source, larger) if third(request) else None
        with pytest.raises(SkepError) as refused:
            upload(skep, source, AT)
        assert refused.value.code == "file_changed"
        assert not (team / AT.path).exists()

    def test_of_a_file_whose_beginning_alone_changes_is_refused(self, skep, line, team, source):  # noqa: F811
        fifth = line.nth("PUT", 5)
        third = line.nth("PUT", 3)

        def change(request: httpx.Request) -> None:
            if third(request):
                appended(source, b"more")
            if fifth(request):
                written(source, b"NEW!" + OLD[PIECE:] + b"more")

        line.before = change
        with pytest.raises(SkepError) as refused:
            upload(skep, source, AT)
        assert refused.value.code == "file_changed"
        assert not (team / AT.path).exists()

    @pytest.mark.parametrize("content", [OLD, NEW], ids=["appended", "written anew"])
    def test_that_goes_on_and_finds_the_file_grown_sends_all_again(
        self,
        skep,  # noqa: F811
        line,  # noqa: F811
        team,  # noqa: F811
        source,  # noqa: F811
        content,
    ):
        """What the run before has sent cannot be compared any more."""
        cut_at(line, "PUT", 4, lambda: upload(skep, source, AT))
        first = line.nth("PUT", 1)
        more = content + b"more"
        line.before = lambda request: written(source, more) if first(request) else None
        assert upload(skep, source, AT) is False
        assert (team / AT.path).read_bytes() == content

    @pytest.mark.parametrize("old", [False, True], ids=["", "old server"])
    def test_that_has_arrived_without_its_name_is_given_it(self, skep, line, team, source, old):  # noqa: F811
        """The server ends between the last byte and the name, and its answer never comes."""
        line.old, last = old, line.nth("PUT", 6)

        def die(request: httpx.Request) -> None:
            if last(request):
                appended(team / "runs/.f.skep-part", request.read())
                raise httpx.ReadError("the server ended")

        line.before = die
        assert upload(skep, source, AT) is True
        assert (team / AT.path).read_bytes() == OLD
        assert os.listdir(team / "runs") == ["f"]

    def test_of_a_small_file_is_not_taken_for_done_where_another_is_there(
        self,
        skep,  # noqa: F811
        line,  # noqa: F811
        team,  # noqa: F811
        source,  # noqa: F811
    ):
        source.write_bytes(b"mine")
        (team / "f").write_bytes(b"held")
        (team / ".f.skep-part").write_bytes(b"m")
        (team / ".f.skep-from").write_text(version_of(source.stat()))
        line.before = lambda request: (
            (team / ".f.skep-part").unlink() if request.method == "PUT" else None
        )
        with pytest.raises(SkepError) as refused:
            upload(skep, source, Place("team", "f"))
        assert refused.value.code == "upload_offset"

    def test_is_not_taken_for_done_where_another_one_of_its_size_came(
        self,
        skep,  # noqa: F811
        line,  # noqa: F811
        team,  # noqa: F811
        source,  # noqa: F811
    ):
        last = line.nth("PUT", 6)

        def other(request: httpx.Request) -> None:
            if last(request):
                (team / "runs/.f.skep-part").unlink()
                written(team / AT.path, NEW[:-2] + b"XX")

        line.before = other
        with pytest.raises(SkepError) as refused:
            upload(skep, source, AT)
        assert refused.value.code == "upload_offset"

    @pytest.mark.skipif(not HERE_ALONE.exists(), reason="there is no such file")
    def test_of_a_file_that_is_shorter_than_its_size_ends(self, skep, line, team):  # noqa: F811
        def bounded(_: httpx.Request) -> None:
            assert len(line.sent) < 20

        line.before = bounded
        with pytest.raises(SkepError) as refused:
            upload(skep, HERE_ALONE, AT)
        assert refused.value.code == "file_changed"
        assert not (team / AT.path).exists()

    def test_begins_anew_once_when_it_is_replaced(self, skep, line, team, source):  # noqa: F811
        """As by a server of the version before, which makes no note of the first piece."""
        third = line.nth("PUT", 3)
        note = team / "runs/.f.skep-from"
        line.before = lambda request: note.unlink() if third(request) else None
        assert upload(skep, source, AT) is True
        assert line.sent.count(0) == 2
        assert (team / AT.path).read_bytes() == OLD

    def test_ends_when_it_is_replaced_again_and_again(self, skep, line, team, source):  # noqa: F811
        note = team / "runs/.f.skep-from"
        line.before = lambda _: note.unlink(missing_ok=True)
        with pytest.raises(SkepError) as refused:
            upload(skep, source, AT)
        assert refused.value.code == "upload_replaced"
        assert line.sent.count(0) == 2

    def test_waits_longer_for_the_end_of_the_last_piece(self, skep, line, team, source):  # noqa: F811
        """The server stores a large file, and the answer to the first try was lost."""
        last = line.nth("PUT", 6)
        tries, stored, waits = 0, [], []

        def busy(request: httpx.Request) -> None:
            nonlocal tries
            if request.method == "PUT":
                waits.append(request.extensions["timeout"]["read"])
            if last(request):
                file = (team / "runs/.f.skep-part").open("rb")
                fcntl.flock(file, fcntl.LOCK_EX)
                stored.append(file)
            tries += bool(stored)
            if tries == 10:
                stored[0].close()

        line.before = busy
        assert upload(skep, source, AT) is True
        assert set(waits[:5]) == {30}
        assert set(waits[5:]) == {60}
        assert (team / AT.path).read_bytes() == OLD


class TestDownload:
    @pytest.fixture(autouse=True)
    def stored(self, team: Path) -> Path:  # noqa: F811
        (team / "runs").mkdir()
        (team / AT.path).write_bytes(OLD)
        return team / AT.path

    @pytest.fixture
    def here(self, tmp_path: Path) -> Path:
        (tmp_path / "down").mkdir()
        return tmp_path / "down/here"

    @pytest.mark.parametrize("old", [False, True], ids=["", "old server"])
    @pytest.mark.parametrize("number", [2, 3, 6])
    def test_of_a_file_that_is_written_anew_and_larger_begins_anew(
        self,
        skep,  # noqa: F811
        line,  # noqa: F811
        stored,
        here,
        number,
        old,
    ):
        it = line.nth("GET", number)
        line.old = old
        larger = NEW + b"more"
        line.before = lambda request: written(stored, larger) if it(request) else None
        assert download(skep, AT, here) is True
        assert here.read_bytes() == larger
        assert os.listdir(here.parent) == ["here"]

    @pytest.mark.parametrize("old", [False, True], ids=["", "old server"])
    def test_of_a_file_whose_beginning_alone_changes_begins_anew(
        self,
        skep,  # noqa: F811
        line,  # noqa: F811
        stored,
        here,
        old,
    ):
        """The piece before, which is compared at once, is the same."""
        line.old, third = old, line.nth("GET", 3)
        changed = b"NEW!" + OLD[PIECE:] + b"more"
        line.before = lambda request: written(stored, changed) if third(request) else None
        assert download(skep, AT, here) is True
        assert here.read_bytes() == changed

    def test_of_a_file_that_grows_all_the_time_has_its_beginning(self, skep, line, stored, here):  # noqa: F811
        def grow(request: httpx.Request) -> None:
            if "range" in request.headers:
                appended(stored, b"more")

        line.before = grow
        assert download(skep, AT, here) is False
        assert here.read_bytes() == OLD

    def test_is_whole_where_a_server_of_the_version_before_answers_some(
        self,
        skep,  # noqa: F811
        line,  # noqa: F811
        stored,
        here,
    ):
        """It takes no notice of the version that the other one has named."""
        third = line.nth("GET", 3)

        def change(request: httpx.Request) -> None:
            if third(request):
                written(stored, NEW)
                line.old = True

        line.before = change
        assert download(skep, AT, here) is True
        assert here.read_bytes() == NEW

    def test_is_refused_where_the_whole_file_comes_for_a_part(self, skep, line, here):  # noqa: F811
        """As from a proxy that removes the range."""

        def whole(request: httpx.Request) -> None:
            if "range" in request.headers:
                request.headers["range"] = "bytes=0-"

        line.before = whole
        with pytest.raises(SkepError) as refused:
            download(skep, AT, here)
        assert refused.value.code == "server_unreachable"
        assert not here.exists()

    def test_leaves_what_is_not_its_own(self, skep, here):  # noqa: F811
        digits = "0123456789abcdef" * 2
        long = "x" * 200
        kept = [
            ".here.pt.skep-part",
            f".here.pt.copy-{digits}.skep-part",
            f".here.{digits}.skep-part",
            transfers._part(here.with_name(f"{long}1"), "v").name,
        ]
        for name in kept:
            (here.parent / name).write_bytes(b"another copy")
        older = transfers._part(here, "before")
        older.write_bytes(b"of a version that is no more")
        for name in ("here", f"{long}2"):
            download(skep, AT, here.with_name(name))
        assert sorted(os.listdir(here.parent)) == sorted([*kept, "here", f"{long}2"])

    def test_goes_on_over_a_file_that_is_read_only(self, skep, line, here):  # noqa: F811
        here.write_bytes(b"before")
        here.chmod(0o444)
        cut_at(line, "GET", 3, lambda: download(skep, AT, here))
        (part,) = here.parent.glob(".here.*")
        assert part.stat().st_mode & 0o777 == 0o644
        assert download(skep, AT, here) is True
        assert here.read_bytes() == OLD
        assert here.stat().st_mode & 0o777 == 0o444

    def test_that_has_its_lock_when_another_one_is_complete_changes_nothing(
        self,
        skep,  # noqa: F811
        here,
        monkeypatch,
    ):
        """Between the opening of its part and the lock another copy ends."""
        lock = fcntl.flock

        def late(file, how: int) -> None:
            (part,) = here.parent.glob(".here.*")
            part.write_bytes(b"complete")
            part.rename(here)
            lock(file, how)

        monkeypatch.setattr(transfers.fcntl, "flock", late)
        with pytest.raises(SkepError) as refused:
            download(skep, AT, here)
        assert refused.value.code == "copy_in_progress"
        assert here.read_bytes() == b"complete"

    def test_keeps_its_lock_until_it_has_its_name(self, skep, here, monkeypatch):  # noqa: F811
        replace, codes = os.replace, []

        def late(part: Path, target: Path) -> None:
            monkeypatch.setattr(os, "replace", replace)
            with pytest.raises(SkepError) as refused:
                download(skep, AT, here)
            codes.append(refused.value.code)
            replace(part, target)

        monkeypatch.setattr(os, "replace", late)
        assert download(skep, AT, here) is True
        assert codes == ["copy_in_progress"]
        assert here.read_bytes() == OLD


class TestWithoutLocks:
    """The folder of the copy lies in a file system that knows no locks."""

    stored, here = TestDownload.stored, TestDownload.here

    @pytest.fixture(autouse=True, params=[errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
    def unlocked(self, request, monkeypatch) -> None:
        def refuse(*_: object) -> None:
            raise OSError(request.param, os.strerror(request.param))

        monkeypatch.setattr(transfers.fcntl, "flock", refuse)

    def test_a_download_goes_on_where_it_was_cut(self, skep, line, here):  # noqa: F811
        cut_at(line, "GET", 4, lambda: download(skep, AT, here))
        assert download(skep, AT, here) is True
        assert line.read[0] == 3 * PIECE
        assert here.read_bytes() == OLD

    @pytest.mark.parametrize("number", [1, 3, 6])
    def test_two_downloads_into_one_file_are_not_mixed(self, skep, line, here, number):  # noqa: F811
        it = line.nth("GET", number)
        line.before = lambda request: download(skep, AT, here) if it(request) else None
        with pytest.raises(SkepError) as refused:
            download(skep, AT, here)
        assert refused.value.code == "copy_in_progress"
        assert here.read_bytes() == OLD
        assert os.listdir(here.parent) == ["here"]

    def test_a_part_that_may_be_in_use_is_left(self, skep, here):  # noqa: F811
        other = transfers._part(here, "another version")
        other.write_bytes(b"x")
        download(skep, AT, here)
        assert other.read_bytes() == b"x"
