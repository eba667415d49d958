"""Keys of objects and names of files: neither leads out of its folder, and each leads back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_agent.isolation.objects import MAX_DEPTH, NoFile, file_of, key_of, prefix_of
from skep_agent.protocol import S3Mount
from skep_agent.runtimes import object_transfers
from skep_agent.runtimes.object_transfers import Ended, Item, Written, _files, _made

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
ODD = st.sampled_from(["", ".", "..", "/", "//", "../", "\0", "a", "a/b", "\\", "é", "/etc"])
KEYS = st.lists(NAMES | ODD, min_size=1, max_size=6).map("/".join) | st.text(max_size=40)


def mount(**fields) -> S3Mount:
    whole = {"storage": "s", "endpoint": "https://s3", "bucket": "team", "target": "/mnt/s"}
    return S3Mount(**(whole | fields))


@pytest.mark.parametrize(
    ("fields", "prefix"),
    [
        ({}, ""),
        ({"prefix": "a/b"}, "a/b/"),
        ({"user_folder": "ann"}, "ann/"),
        ({"prefix": "a", "user_folder": "ann"}, "a/ann/"),
    ],
)
def test_prefix_ends_with_a_whole_name(fields, prefix):
    assert prefix_of(mount(**fields)) == prefix


@given(KEYS, st.sampled_from(["", "team/", "team/ann/"]))
def test_02_file_of_any_key_lies_below_the_folder_and_leads_back(below, prefix):
    try:
        names, is_folder = file_of(prefix + below, prefix)
    except NoFile:
        return
    path = os.path.normpath(os.path.join("/base", *names))
    assert path == "/base" or path.startswith("/base/")
    assert path == "/".join(["/base", *names])
    if names:
        assert key_of(names, prefix) + ("/" if is_folder else "") == prefix + below


@given(st.lists(NAMES | ODD, min_size=1, max_size=6))
def test_02_key_of_any_file_lies_below_the_prefix_and_leads_back(names):
    try:
        key = key_of(names, "team/ann/")
    except NoFile:
        return
    assert key.startswith("team/ann/")
    assert file_of(key, "team/ann/") == (tuple(names), False)


@pytest.mark.parametrize(
    "key", ["other/a", "tea", "team", "team/..", "team/a/../b", "team//a", "team/a//b", "team/./a"]
)
def test_02_key_of_another_place_is_refused(key):
    with pytest.raises(NoFile):
        file_of(key, "team/")


@pytest.mark.parametrize(
    "names", [["x" * 256], ["a"] * (MAX_DEPTH + 1), ["\udcff"], ["y" * 250] * 5]
)
def test_02_file_that_is_no_object_is_refused(names):
    with pytest.raises(NoFile):
        key_of(names, "")


@given(st.lists(NAMES | ODD, min_size=1, max_size=4))
def test_02_no_object_is_written_outside_of_its_folder(tmp_path_factory, names):
    """On a real folder, with links in it that lead out."""
    base: Path = tmp_path_factory.mktemp("base")
    outside, inside = base / "outside", base / "inside"
    outside.mkdir()
    inside.mkdir()
    for name in ("a", "é"):
        (inside / name).symlink_to(outside)
    at = os.open(inside, os.O_RDONLY)
    try:
        found, is_folder = file_of("/".join(names), "")
        file = _made(at, Item("", found, is_folder, 1)) if found else None
        if file is not None:
            file.write(b"x")
            file.close()
    except (NoFile, OSError):
        pass
    finally:
        os.close(at)
    assert list(outside.iterdir()) == []
    assert sorted(path.name for path in base.iterdir()) == ["inside", "outside"]


def test_02_link_at_the_name_of_an_object_is_not_written_through(tmp_path):
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").symlink_to(tmp_path / "secret")
    at = os.open(tmp_path / "folder", os.O_RDONLY)
    with pytest.raises(FileExistsError):
        _made(at, Item("a", ("a",), False, 1))
    os.close(at)
    assert (tmp_path / "secret").read_text() == "mine"


def test_02_only_plain_files_are_read(tmp_path):
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "plain").write_text("plain")
    (tmp_path / "secret").write_text("mine")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "out").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    at, written = os.open(folder, os.O_RDONLY), Written()
    found = {}
    for names, file in _files(at, written, lambda: False):
        found[names] = file.read()
        file.close()
    os.close(at)
    assert (found, written.failed) == ({("sub", "plain"): b"plain"}, 0)


def test_files_in_too_many_folders_are_reported_and_end_nothing(tmp_path):
    deep = tmp_path
    for _ in range(MAX_DEPTH + 2):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (tmp_path / "here").write_text("x")
    at, written = os.open(tmp_path, os.O_RDONLY), Written()
    names = []
    for parts, file in _files(at, written, lambda: False):
        names.append(parts)
        file.close()
    os.close(at)
    assert (names, written.failed) == ([("here",)], 1)


def test_folder_that_is_too_large_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(object_transfers, "MAX_OBJECTS", 3)
    (tmp_path / "sub").mkdir()
    for name in "abcde":
        (tmp_path / "sub" / name).symlink_to("/nowhere")
    at, written = os.open(tmp_path, os.O_RDONLY), Written()
    assert list(_files(at, written, lambda: False)) == []
    os.close(at)
    assert written.failed == 1


def test_walk_through_links_alone_ends_when_it_shall(tmp_path):
    (tmp_path / "link").symlink_to("/nowhere")
    at = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(Ended):
        list(_files(at, Written(), lambda: True))
    os.close(at)
