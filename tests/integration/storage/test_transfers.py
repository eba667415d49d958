"""Copies of `skep fs cp` that are cut, repeated, or of files that change meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx
from tests.support.platform_factories import make_user, make_vc
from tests.support.served_client import served as answered
from typer.testing import CliRunner, Result

from skep_client import transfers
from skep_client.cli import app
from skep_client.client import Skep
from skep_client.errors import SkepError
from skep_client.transfers import Place, download, upload
from skep_platform.accounts.services import create_token
from skep_platform.storage import services

pytestmark = pytest.mark.django_db
AT = Place("team", "runs/f")
PIECE = 4
OLD, NEW = b"old content, in pieces", b"new content, in pieces"


class Cut(Exception):
    """The command ends at once, as when it is killed."""


class Line:
    """The line to the server. `sent` and `read` are where the pieces began that were asked for;
    `before` is called for each request, and `lost` decides whose answer does not come."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.read: list[int] = []
        self.before: Callable[[httpx.Request], None] = lambda _: None
        self.lost: Callable[[httpx.Request], bool] = lambda _: False
        self.old = False  # the server is of the version before

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.before(request)
        if request.method == "PUT":
            self.sent.append(int(request.url.params["offset"]))
        elif "range" in request.headers:
            self.read.append(int(request.headers["range"].partition("=")[2].partition("-")[0]))
        answer = self._of_old_server(request) if self.old else answered(request)
        if self.lost(request):
            raise httpx.ReadError("the connection broke off")
        return answer

    def _of_old_server(self, request: httpx.Request) -> httpx.Response:
        """Play one that knows no versions of files."""
        request.headers.pop("if-match", None)
        request.url = request.url.copy_remove_param("source")
        answer = answered(request)
        if "json" not in answer.headers["content-type"]:
            return answer
        body = answer.json()
        for name in ("source", "etag"):
            body.pop(name, None)
        return httpx.Response(answer.status_code, json=body)

    def nth(self, method: str, number: int) -> Callable[[httpx.Request], bool]:
        """Whether a request is the one of this number with the method; the first is 1."""
        count = 0

        def is_it(request: httpx.Request) -> bool:
            nonlocal count
            counts = request.method == method and request.url.path.endswith("/content")
            count += counts
            return counts and count == number

        return is_it


def cut(is_it: Callable[[httpx.Request], bool]) -> Callable[[httpx.Request], None]:
    def check(request: httpx.Request) -> None:
        if is_it(request):
            raise Cut

    return check


@pytest.fixture
def team(tmp_path: Path, settings, admin) -> Path:
    """The folder of the storage "team", as the server has it."""
    settings.SKEP_STORAGE_FILES = str(tmp_path / "storages")
    (tmp_path / "storages/team").mkdir(parents=True)
    made = services.create(admin.user, "team", "host_path", {"path": "/srv/team"})
    make_vc("a", members=[make_user("ann")])
    services.grant(admin.user, made, "a")
    return tmp_path / "storages/team"


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def skep(team: Path, line: Line, monkeypatch: pytest.MonkeyPatch) -> Skep:
    monkeypatch.setattr(transfers, "PIECE", PIECE)
    monkeypatch.setattr(transfers, "READ_PIECE", PIECE)
    monkeypatch.setattr(transfers, "BUSY_PAUSES_S", (0, 0))
    monkeypatch.setattr(transfers, "LAST_PAUSES_S", (0,) * 20, raising=False)
    monkeypatch.setattr("skep_client.flow.OUTAGE_DELAY_S", 0)
    from skep_platform.accounts.models import User

    token = create_token(User.objects.get(username="ann"), "t", scope="submit")[1]
    monkeypatch.setenv("SKEP_SERVER", "http://skep.test")
    monkeypatch.setenv("SKEP_TOKEN", token)
    transport = httpx.MockTransport(line)
    return Skep("http://skep.test", token, retry_delays_s=(0, 0), transport=transport)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(OLD)
    return path


def written(path: Path, content: bytes, at_ns: int = 10**18) -> None:
    """Write it so that the time of the file is another one, also where the clock is coarse."""
    path.write_bytes(content)
    os.utime(path, ns=(at_ns, at_ns))


class TestUpload:
    def test_goes_on_where_it_was_cut(self, skep, line, team, source):
        line.before = cut(line.nth("PUT", 4))
        with pytest.raises(Cut):
            upload(skep, source, AT)
        line.before, line.sent = lambda _: None, []
        assert upload(skep, source, AT) is True
        assert line.sent[0] == 3 * PIECE
        assert (team / AT.path).read_bytes() == OLD
        assert os.listdir(team / "runs") == ["f"]

    def test_begins_anew_where_the_file_has_changed_since(self, skep, line, team, source):
        line.before = cut(line.nth("PUT", 4))
        with pytest.raises(Cut):
            upload(skep, source, AT)
        line.before, line.sent = lambda _: None, []
        written(source, NEW)
        assert upload(skep, source, AT) is True
        assert line.sent[0] == 0
        assert (team / AT.path).read_bytes() == NEW
        assert os.listdir(team / "runs") == ["f"]

    def test_begins_anew_at_a_server_that_knows_no_versions(self, skep, line, team, source):
        line.old = True
        line.before = cut(line.nth("PUT", 4))
        with pytest.raises(Cut):
            upload(skep, source, AT)
        line.before = lambda _: None
        written(source, NEW)
        assert upload(skep, source, AT) is True
        assert (team / AT.path).read_bytes() == NEW

    @pytest.mark.parametrize("old", [False, True], ids=["", "old server"])
    @pytest.mark.parametrize("number", range(1, 8))
    def test_goes_on_after_a_lost_answer(self, skep, line, team, source, number, old):
        written(team / "f", NEW)
        line.old, line.lost = old, line.nth("PUT", number)
        assert upload(skep, source, Place("team", "f")) is True
        assert (team / "f").read_bytes() == OLD

    def test_is_not_taken_for_done_where_another_file_is_there(self, skep, line, team, source):
        """The last piece is lost with all that had arrived: as if someone had removed it."""
        (team / "runs").mkdir()
        written(team / AT.path, NEW)
        is_last = line.nth("PUT", 6)

        def removed(request: httpx.Request) -> None:
            if is_last(request):
                (team / "runs/.f.skep-part").unlink()

        line.before = removed
        with pytest.raises(SkepError) as refused:
            upload(skep, source, AT)
        assert refused.value.code == "upload_offset"
        assert (team / AT.path).read_bytes() == NEW

    def test_waits_for_a_server_that_is_away_and_says_it_once(
        self, skep, line, team, source, monkeypatch, caplog
    ):
        tries = 0

        def away(request: httpx.Request) -> None:
            nonlocal tries
            tries += request.method == "PUT"
            if request.method == "PUT" and 2 <= tries <= 9:
                raise httpx.ConnectError("refused")

        line.before = away
        assert upload(skep, source, AT) is True
        assert (team / AT.path).read_bytes() == OLD
        said = [record.message for record in caplog.records if record.name == "skep_client"]
        assert [("trying again" in one, "answers again" in one) for one in said] == [
            *((True, False), (False, True)),
        ]

    def test_shows_nothing_of_a_file_that_is_written_anew_meanwhile(self, skep, line, team, source):
        third = line.nth("PUT", 3)
        line.before = lambda request: written(source, NEW) if third(request) else None
        with pytest.raises(SkepError) as refused:
            upload(skep, source, AT)
        assert refused.value.code == "file_changed"
        assert not (team / AT.path).exists()

    def test_of_a_file_that_grows_has_its_beginning(self, skep, line, team, source):
        third = line.nth("PUT", 3)
        line.before = lambda request: written(source, OLD + b"more") if third(request) else None
        assert upload(skep, source, AT) is False
        assert (team / AT.path).read_bytes() == OLD

    @pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1])
    def test_has_all_bytes_of_a_file_of_any_size(self, skep, team, source, size):
        source.write_bytes(OLD[:size])
        assert upload(skep, source, AT) is True
        assert (team / AT.path).read_bytes() == OLD[:size]


class TestDownload:
    @pytest.fixture(autouse=True)
    def stored(self, team: Path) -> Path:
        (team / "runs").mkdir()
        (team / AT.path).write_bytes(OLD)
        return team / AT.path

    def test_goes_on_where_it_was_cut(self, skep, line, tmp_path):
        line.before = cut(line.nth("GET", 4))
        with pytest.raises(Cut):
            download(skep, AT, tmp_path / "here")
        line.before, line.read = lambda _: None, []
        assert download(skep, AT, tmp_path / "here") is True
        assert line.read[0] == 3 * PIECE
        assert (tmp_path / "here").read_bytes() == OLD
        assert list(tmp_path.glob(".*")) == []

    def test_begins_anew_where_the_file_has_changed_since(self, skep, line, stored, tmp_path):
        line.before = cut(line.nth("GET", 4))
        with pytest.raises(Cut):
            download(skep, AT, tmp_path / "[here]")
        line.before, line.read = lambda _: None, []
        written(stored, NEW)
        assert download(skep, AT, tmp_path / "[here]") is True
        assert line.read[0] == 0
        assert (tmp_path / "[here]").read_bytes() == NEW
        assert list(tmp_path.glob(".*")) == []

    @pytest.mark.parametrize("old", [False, True], ids=["", "old server"])
    @pytest.mark.parametrize("number", [2, 3, 6])
    def test_begins_anew_when_the_file_is_written_anew(
        self, skep, line, stored, tmp_path, number, old, caplog
    ):
        it = line.nth("GET", number)
        line.old = old
        line.before = lambda request: written(stored, NEW) if it(request) else None
        assert download(skep, AT, tmp_path / "here") is True
        assert (tmp_path / "here").read_bytes() == NEW
        assert list(tmp_path.glob(".*")) == []
        assert "copying it again" in caplog.text

    def test_ends_for_a_file_that_is_written_anew_again_and_again(
        self, skep, line, stored, tmp_path
    ):
        def again(request: httpx.Request) -> None:
            if line.read and line.read[-1] == PIECE:
                written(stored, NEW, at_ns=10**18 + len(line.read) * 10**9)

        line.before = again
        with pytest.raises(SkepError) as refused:
            download(skep, AT, tmp_path / "here")
        assert refused.value.code == "file_changed"
        assert not (tmp_path / "here").exists()
        assert list(tmp_path.glob(".*")) == []

    @pytest.mark.parametrize("old", [False, True], ids=["", "old server"])
    def test_of_a_file_that_grows_has_its_beginning(self, skep, line, stored, tmp_path, old):
        third = line.nth("GET", 3)
        line.old = old
        line.before = lambda request: written(stored, OLD + b"more") if third(request) else None
        assert download(skep, AT, tmp_path / "here") is False
        assert (tmp_path / "here").read_bytes() == OLD

    @pytest.mark.parametrize("content", [b"", b"a"], ids=["empty", "small"])
    def test_of_a_file_that_is_cut_meanwhile_has_what_is_left(
        self, skep, line, stored, tmp_path, content
    ):
        third = line.nth("GET", 3)
        line.before = lambda request: written(stored, content) if third(request) else None
        assert download(skep, AT, tmp_path / "here") is True
        assert (tmp_path / "here").read_bytes() == content

    def test_goes_into_a_file_with_the_longest_name(self, skep, line, team, tmp_path):
        name = "ä" * 120 + "12345"
        (team / name).write_bytes(OLD)
        line.before = cut(line.nth("GET", 2))
        with pytest.raises(Cut):
            download(skep, Place("team", name), tmp_path / name)
        line.before = lambda _: None
        assert download(skep, Place("team", name), tmp_path / name) is True
        assert (tmp_path / name).read_bytes() == OLD

    def test_is_not_mixed_with_another_one_into_the_same_file(self, skep, line, tmp_path):
        third = line.nth("GET", 3)
        codes = []

        def twice(request: httpx.Request) -> None:
            if third(request):
                with pytest.raises(SkepError) as refused:
                    download(skep, AT, tmp_path / "here")
                codes.append(refused.value.code)

        line.before = twice
        assert download(skep, AT, tmp_path / "here") is True
        assert codes == ["copy_in_progress"]
        assert (tmp_path / "here").read_bytes() == OLD

    def test_keeps_the_permissions_of_the_file_that_it_replaces(self, skep, tmp_path):
        (tmp_path / "here").write_text("before")
        (tmp_path / "here").chmod(0o600)
        download(skep, AT, tmp_path / "here")
        assert (tmp_path / "here").stat().st_mode & 0o777 == 0o600

    def test_replaces_no_pipe_or_device(self, skep, tmp_path):
        os.mkfifo(tmp_path / "here")
        with pytest.raises(SkepError) as refused:
            download(skep, AT, tmp_path / "here")
        assert refused.value.code == "not_a_file"
        assert list(tmp_path.glob(".*")) == []


class TestCommand:
    @pytest.fixture
    def cp(self, skep: Skep, line: Line) -> Any:
        def run(*arguments: object) -> Result:
            with respx.mock(assert_all_called=False) as router:
                router.route(host="skep.test").mock(side_effect=line)
                return CliRunner().invoke(app, ["fs", "cp", *map(str, arguments)])

        return run

    def test_a_folder_is_copied_past_a_file_that_cannot_be(self, cp, team, tmp_path):
        folder = tmp_path / "code"
        (folder / "sub").mkdir(parents=True)
        (folder / "sub/a").write_bytes(b"a")
        (folder / ("x" * 250)).write_bytes(b"too long for its part")
        (folder / "link").symlink_to("sub/a")
        (folder / "z").write_bytes(b"z")
        up = cp("-r", folder, "team:")
        assert (up.exit_code, up.stdout) == (5, "Copied 2 files.\n")
        assert "link: no plain file" in up.stderr
        assert "(storage_path_invalid)" in up.stderr
        assert (team / "code/z").read_bytes() == b"z"
        (team / "code/sub/a").chmod(0o600)
        (team / "code/out").symlink_to("z")
        down = cp("-r", "team:code", tmp_path / "back")
        assert (down.exit_code, down.stdout) == (0, "Copied 2 files.\n")
        assert "team:code/out: no plain file" in down.stderr
        assert (tmp_path / "back/sub/a").read_bytes() == b"a"

    def test_parts_of_copies_that_were_cut_are_left_out(self, cp, team, tmp_path):
        for folder in (team / "data", tmp_path / "data"):
            folder.mkdir()
            for name in (".f.skep-part", ".f.skep-from", ".f.copy-0123.skep-part", "g.skep-part"):
                (folder / name).write_bytes(b"x")
        up = cp("-r", tmp_path / "data", "team:new")
        assert (up.exit_code, up.stdout) == (0, "Copied 1 file.\n")
        assert os.listdir(team / "new") == ["g.skep-part"]
        down = cp("-r", "team:data", tmp_path / "back")
        assert (down.exit_code, down.stdout) == (0, "Copied 1 file.\n")
        assert "team:data/.f.skep-part: a part of a copy that has not ended" in down.stderr
        assert os.listdir(tmp_path / "back") == ["g.skep-part"]

    def test_a_name_that_is_no_text_is_left_out(self, cp, team, tmp_path):
        (tmp_path / "code").mkdir()
        (tmp_path / "code/a").write_bytes(b"a")
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/code/caf\xe9")).write_bytes(b"b")
        up = cp("-r", tmp_path / "code", "team:")
        assert (up.exit_code, up.stdout) == (5, "Copied 1 file.\n")
        assert "(not_sendable)" in up.stderr

    def test_a_file_that_is_not_there_is_named(self, cp, tmp_path):
        gone = cp("team:none", tmp_path)
        assert (gone.exit_code, gone.stdout) == (1, "")
        assert isinstance(gone.exception, SkepError)
        assert gone.exception.code == "file_not_found"
        assert cp(tmp_path / "none", "team:").exit_code == 2
        assert cp("team:none", tmp_path / "no/where").exit_code == 2

    def test_a_file_that_grew_is_said(self, cp, line, team, tmp_path):
        (team / "log").write_bytes(OLD)
        second = line.nth("GET", 2)
        more = OLD + b"more"
        line.before = lambda request: written(team / "log", more) if second(request) else None
        copied = cp("team:log", tmp_path / "log")
        assert (copied.exit_code, copied.stdout) == (0, "Copied 1 file.\n")
        assert "team:log grew while it was copied" in copied.stderr
