"""The layer that a container is saved as: what is left out, refused and bounded."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from collections.abc import Iterable

import pytest

from skep_agent.containers import RuntimeFailure
from skep_agent.runtimes import mount_points, saved_layer
from skep_agent.runtimes.saved_layer import Changes, LayerLimits, MissingTargets, write_layer

SECRET = b"hunter2-of-the-job"


def entry(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    for key, value in fields.items():
        setattr(made, key, value)
    return made


def exported(*entries: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]) -> list[bytes]:
    """Return the archive of a container's files, as the engine sends it."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for one in entries:
            info, content = one if isinstance(one, tuple) else (one, b"")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return [archive.getvalue()]


def limits(tmp_path, **fields: object) -> LayerLimits:
    known = {
        "max_bytes": 2**20,
        "masks": (SECRET,),
        "max_read": 2**30,
        "folders": (str(tmp_path),),
        "cancelled": threading.Event(),
    }
    return LayerLimits(**(known | fields))  # type: ignore[arg-type]


def names_of(pieces: Iterable[bytes], changes: Changes | None, known: LayerLimits) -> list[str]:
    spool = io.BytesIO()
    write_layer(pieces, spool, changes, known)
    spool.seek(0)
    with tarfile.open(fileobj=spool) as layer:
        return layer.getnames()


def changes(*rows: tuple[str, int]) -> Changes:
    return Changes.of(json.dumps([{"Path": path, "Kind": kind} for path, kind in rows]).encode())


def test_changes_deletions_and_hard_links_are_written_and_the_platforms_files_are_not(tmp_path):
    container = exported(
        entry("etc", tarfile.DIRTYPE),
        (entry("etc/passwd"), b"root"),
        entry("opt", tarfile.DIRTYPE),
        (entry('opt/a "{quoted}"'), b"a"),
        entry("opt/link", tarfile.LNKTYPE, linkname='opt/a "{quoted}"'),
        entry("run", tarfile.DIRTYPE),
        entry("run/skep", tarfile.DIRTYPE),
        (entry("run/skep/key"), b"key"),
    )
    found = changes(
        *(("/etc", 0), ("/etc/gone", 2), ("/opt", 1), ('/opt/a "{quoted}"', 1), ("/opt/link", 1)),
        *(("/run/skep", 1), ("/run/skep/key", 1), ("/run/skep/old", 2)),
    )
    assert names_of(container, found, limits(tmp_path)) == [
        *("etc", "opt", 'opt/a "{quoted}"', "opt/link", "etc/.wh.gone")
    ]
    assert Changes.of(b"null\n") == Changes(frozenset(), frozenset())


@pytest.mark.parametrize(
    "holder",
    [
        entry("etc/hunter2-of-the-job"),
        entry("etc/soft", tarfile.SYMTYPE, linkname="https://u:hunter2-of-the-job@example.org"),
        entry("etc/attribute", pax_headers={"SCHILY.xattr.user.key": "hunter2-of-the-job"}),
        entry("etc/key", pax_headers={"SCHILY.xattr.user.hunter2-of-the-job": "1"}),
    ],
    ids=["name", "link", "attribute", "key of an attribute"],
)
def test_33_a_secret_in_a_name_a_link_or_an_attribute_is_refused_and_not_repeated(holder, tmp_path):
    with pytest.raises(RuntimeFailure) as refused:
        names_of(exported(holder), None, limits(tmp_path))
    assert refused.value.code == "save_has_secret"
    assert SECRET.decode() not in refused.value.message


def test_33_a_secret_in_the_name_of_a_deleted_file_is_refused(tmp_path):
    container = exported(entry("etc", tarfile.DIRTYPE))
    found = changes(("/etc", 0), (f"/etc/{SECRET.decode()}", 2))
    with pytest.raises(RuntimeFailure) as refused:
        names_of(container, found, limits(tmp_path))
    assert refused.value.code == "save_has_secret"


def test_a_huge_file_that_is_left_out_ends_the_save_before_it_is_read(tmp_path):
    sparse = entry("run/skep/sparse", size=2**40)
    read = 0

    def pieces() -> Iterable[bytes]:
        nonlocal read
        yield sparse.tobuf(tarfile.GNU_FORMAT)
        while True:
            read += 1
            yield bytes(2**20)

    with pytest.raises(RuntimeFailure) as refused:
        names_of(pieces(), None, limits(tmp_path))
    assert refused.value.code == "save_too_large"
    assert read < 4


def test_many_files_that_are_left_out_end_the_save_at_a_bound(tmp_path):
    def pieces() -> Iterable[bytes]:
        while True:
            yield entry("run/skep/small", size=2**19).tobuf(tarfile.GNU_FORMAT) + bytes(2**19)

    with pytest.raises(RuntimeFailure) as refused:
        names_of(pieces(), None, limits(tmp_path, max_read=2**24))
    assert refused.value.code == "save_too_large"


def test_paths_that_are_kept_in_memory_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(saved_layer, "MAX_PATHS_BYTES", 1000)
    container = exported(*(entry(f"folder-{n}", tarfile.DIRTYPE) for n in range(200)))
    found = changes(("/gone", 2), *((f"/folder-{n}", 1) for n in range(200)))
    with pytest.raises(RuntimeFailure) as refused:
        names_of(container, found, limits(tmp_path))
    assert refused.value.code == "save_too_large"


LIB = "usr/lib/x86_64-linux-gnu"
MOUNTED = (f"{LIB}/libcuda.so.570.86", "lib/firmware/nvidia/570.86/gsp.bin", "mnt/my data", "proc")


def test_what_a_runtime_made_to_mount_a_driver_there_is_left_out_and_the_tasks_files_are_not(
    tmp_path,
):
    """As nvidia's runtime leaves it: empty files for libraries, links to them, and folders."""
    container = exported(
        entry("lib", tarfile.DIRTYPE),
        entry("lib/firmware", tarfile.DIRTYPE),
        entry("lib/firmware/nvidia", tarfile.DIRTYPE),
        entry("lib/firmware/nvidia/570.86", tarfile.DIRTYPE),
        entry("lib/firmware/nvidia/570.86/gsp.bin"),
        entry("mnt", tarfile.DIRTYPE),
        entry("mnt/my data", tarfile.DIRTYPE),
        entry("mnt/notes", tarfile.DIRTYPE),
        entry(LIB, tarfile.DIRTYPE),
        entry(f"{LIB}/libcuda.so", tarfile.SYMTYPE, linkname="libcuda.so.1"),
        entry(f"{LIB}/libcuda.so.1", tarfile.SYMTYPE, linkname="libcuda.so.570.86"),
        entry(f"{LIB}/libcuda.so.570.86"),
        (entry(f"{LIB}/libcuda.so.mine"), b"of the task"),
        entry(f"{LIB}/libmine.so", tarfile.SYMTYPE, linkname="libcuda.so.1"),
        entry(f"{LIB}/libother.so.1"),
    )
    added = [one for one in names_of(container, None, limits(tmp_path)) if one not in ("lib", LIB)]
    rows = json.dumps(
        [{"Path": f"/{one}", "Kind": 1} for one in added]
        + [{"Path": "/lib", "Kind": 0}, {"Path": f"/{LIB}", "Kind": 0}]
    )
    found = Changes.of(rows.encode(), frozenset(MOUNTED))
    assert names_of(container, found, limits(tmp_path)) == [
        *("lib", "mnt", "mnt/notes", LIB, f"{LIB}/libcuda.so.mine"),
        *(f"{LIB}/libmine.so", f"{LIB}/libother.so.1"),
    ]


def test_a_file_of_the_image_that_something_is_mounted_on_stays_as_it_was(tmp_path):
    container = exported(entry("etc", tarfile.DIRTYPE), (entry("etc/conf"), b"of the image"))
    found = Changes.of(b'[{"Path": "/etc/conf", "Kind": 0}]', frozenset({"etc/conf"}))
    assert names_of(container, found, limits(tmp_path)) == ["etc/conf"]


def test_in_one_layer_with_all_files_the_empty_ones_below_mounts_are_left_out(tmp_path):
    container = exported(
        entry("proc", tarfile.DIRTYPE),
        entry(LIB, tarfile.DIRTYPE),
        entry(MOUNTED[0]),
        entry(f"{LIB}/empty"),
    )
    known = limits(tmp_path, mounts=frozenset(MOUNTED))
    assert names_of(container, None, known) == ["proc", LIB, f"{LIB}/empty"]


def test_mount_points_are_read_as_the_kernel_writes_them():
    text = (
        "612 580 0:76 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/a\n"
        "613 612 0:80 / /proc rw,nosuid - proc proc rw\n"
        "640 612 8:1 /x/libcuda.so.1 /usr/lib/libcuda.so.1 ro,nosuid - ext4 /dev/sda1 rw\n"
        r"641 612 8:1 /y /mnt/my\040data rw - ext4 /dev/sda1 rw"
    )
    assert mount_points.points_in(text) == {"/", "/proc", "/usr/lib/libcuda.so.1", "/mnt/my data"}


def test_a_hard_link_to_what_did_not_change_asks_for_its_target(tmp_path):
    container = exported(
        (entry("bin/tool"), b"tool"), entry("opt/link", tarfile.LNKTYPE, linkname="bin/tool")
    )
    found = changes(("/opt/link", 1))
    with pytest.raises(MissingTargets) as missing:
        names_of(container, found, limits(tmp_path))
    assert missing.value.targets == {"bin/tool"}
    again = found.also(missing.value.targets)
    assert names_of(container, again, limits(tmp_path)) == ["bin/tool", "opt/link"]


def test_33_a_link_in_place_of_the_folder_of_the_platforms_files_is_refused(tmp_path):
    container = exported(
        entry("run", tarfile.SYMTYPE, linkname="var/run"), (entry("var/run/skep/key"), b"key")
    )
    with pytest.raises(RuntimeFailure) as refused:
        names_of(container, changes(("/var/run/skep/key", 1)), limits(tmp_path))
    assert refused.value.code == "save_failed"


def test_a_full_disk_ends_the_save_also_of_files_without_content(tmp_path, monkeypatch):
    monkeypatch.setattr(saved_layer, "LOOK_BYTES", 0)
    monkeypatch.setattr(saved_layer, "RESERVE_BYTES", 2**60)
    container = exported(entry("folder", tarfile.DIRTYPE))
    with pytest.raises(RuntimeFailure) as refused:
        names_of(container, None, limits(tmp_path))
    assert refused.value.code == "disk_full"
    missing = (str(tmp_path / "of-an-engine-elsewhere"),)
    assert names_of(container, None, limits(tmp_path, folders=missing)) == ["folder"]
