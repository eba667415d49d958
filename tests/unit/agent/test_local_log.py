"""The engine's log file, read directly: what a reader gets of it, and how much work it takes."""

from __future__ import annotations

import asyncio
import struct
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skep_agent.runtimes import local_log
from skep_agent.runtimes.docker_logs import _Lines
from skep_agent.runtimes.file_watches import FileWatches
from skep_agent.runtimes.local_log import LocalFile, Parser, UnknownFormat

NOW = 1_790_000_000_123_456_789


def number(value: int) -> bytes:
    coded = bytearray()
    while value > 127:
        coded.append(value & 127 | 128)
        value >>= 7
    return bytes(coded) + bytes([value])


def record(stream: str, at: int, line: bytes, part: int = 0, *, last: bool = False) -> bytes:
    """As Docker's driver "local" writes it; `part` counts the parts of a longer line from 1."""
    message = b"\n\x06" + stream.encode() + b"\x10" + number(at)
    message += b"\x1a" + number(len(line)) + line if line else b""
    if part:
        which = b"\n\x40" + b"f" * 64 + (b"\x10\x01" if last else b"") + b"\x18" + number(part)
        message += b"\x20\x01\x2a" + number(len(which)) + which
    size = struct.pack(">I", len(message))
    return size + message + size


def read(parser: Parser, data: bytes, step: int) -> list[tuple[str, int, bytes, bool]]:
    found: list[tuple[str, int, bytes, bool]] = []
    for at in range(0, len(data), step):
        for run in parser.take(data[at : at + step]):
            found += [
                (run.stream, time, line, run.partial)
                for time, line in zip(run.times, run.lines, strict=True)
            ]
    return found


SOURCE = b"\x06stdout\x10"  # as the engine writes it behind the code of a line end
LOOKS_LIKE_RECORDS = (
    SOURCE + b"ab",  # the code of a line end is its length
    SOURCE + number(NOW) + b"\x1a\x05" + b"12345678" * 160,  # and a part of its length
    (record("stdout", NOW, b"12345") + record("stderr", NOW, b""))[5:] + b"9" * 1240,
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["stdout", "stdout", "stdout", "stderr"]),
            st.one_of(
                st.integers(NOW, NOW + 10**10),
                st.integers(NOW, NOW + 10**10),
                st.integers(1, (1 << 63) - 1),
            ),
            st.one_of(
                st.binary(max_size=40),
                st.binary(max_size=40),
                st.sampled_from(LOOKS_LIKE_RECORDS),
                st.integers(100, 17000).map(lambda size: b"\x1a\x00" * (size // 2)),
            ),
            st.sampled_from([0, 0, 0, 0, 1, 2, 3]),
        ),
        max_size=40,
    ),
    st.integers(1, 50_000),
)
@example([("stdout", NOW + n, line, 0) for n, line in enumerate(LOOKS_LIKE_RECORDS * 3)], 50_000)
def test_every_record_comes_out_as_it_was_written(records, step):
    data = b"".join(record(*one) for one in records)
    wanted = [(stream, at, line, part > 0) for stream, at, line, part in records]
    # The smallest records wait for the next one.
    data += record("stdout", NOW, b"the end")
    assert read(Parser(), data, step) == [*wanted, ("stdout", NOW, b"the end", False)]


def test_neighbouring_lines_of_a_stream_are_one_piece(monkeypatch):
    """One object for each piece of output, whatever the number of lines in it, and empty lines and
    what looks like a record are the only ones that are decoded alone, and the last."""
    alone, decode = [], local_log._record
    monkeypatch.setattr(local_log, "_record", lambda *args: alone.append(args) or decode(*args))
    lines = [b"line %d" % n for n in range(2000)]
    lines[5] = lines[700] = b""
    lines[10], lines[900] = LOOKS_LIKE_RECORDS[:2]
    lines[300] = b"longer " * 100
    data = b"".join(record("stdout", NOW + n, line) for n, line in enumerate(lines))
    (run,) = Parser().take(data)
    assert len(alone) == 5
    piece = _Lines().of_run(run)
    assert piece.data == b"".join(line + b"\n" for line in lines)
    assert list(piece.times) == list(range(NOW, NOW + 2000))


def test_a_long_lines_parts_are_joined_and_times_rise():
    records = [
        record("stdout", NOW, b"a" * 16384, 1),
        record("stdout", NOW, b"b" * 10, 2, last=True),
        record("stdout", NOW + 5, b"next"),
        record("stdout", NOW + 3, b"stamped before"),
        record("stdout", NOW + 9, b"last"),
    ]
    lines = _Lines()
    pieces = [lines.of_run(run) for run in Parser().take(b"".join(records))]
    wanted = b"a" * 16384 + b"b" * 10 + b"\nnext\nstamped before\nlast\n"
    assert b"".join(piece.data for piece in pieces) == wanted
    times = [at for piece in pieces for at in piece.times]
    assert times == [NOW, NOW + 5, NOW + 6, NOW + 9]


@pytest.mark.parametrize(
    "data",
    [
        record("stdout", NOW, b"line")[:-1] + b"\xff",  # the two sizes differ
        record("stdlog", NOW, b"line"),
        record("stdout", NOW, b"line").replace(b"\x1a\x04", b"\x32\x04"),  # a field of the future
        b"\x7b" * 64,  # JSON or anything else
        b"\x00" * 64,  # after a crash of the machine
    ],
)
def test_what_the_engine_does_not_write_is_refused(data):
    with pytest.raises(UnknownFormat):
        Parser().take(record("stdout", NOW, b"fine") + data)


class Followed:
    """A log file that a test writes, its reader, and how often that looked at the container."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "container.log"
        self.path.touch()
        self.over = False
        self.looks = 0
        self.watches = FileWatches()
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        file = LocalFile(str(self.path), self.watches)
        async with aclosing(file.runs(self._is_over)) as batches:
            async for runs in batches:
                for run in runs:
                    for line in run.lines:
                        self.lines.put_nowait(line)

    async def _is_over(self) -> bool:
        self.looks += 1
        return self.over


async def test_lines_wake_the_reader_and_the_end_is_seen(tmp_path):
    followed = Followed(tmp_path)
    with followed.path.open("ab", buffering=0) as out:
        for n in range(20):
            out.write(record("stdout", NOW + n, b"%d" % n))
            assert await asyncio.wait_for(followed.lines.get(), 30) == b"%d" % n
        assert followed.looks <= 1, "the engine is not asked for each line"
        out.write(record("stdout", NOW + 20, b"last"))
        followed.over = True
    await asyncio.wait_for(followed.reader, 30)
    assert followed.lines.get_nowait() == b"last"
    followed.watches.close()


async def test_a_flood_is_read_in_large_pieces(tmp_path, monkeypatch):
    """At most one read for each 256 KiB and one more at each end that is met."""
    reads, whole = [], local_log._read

    async def counted(file, at):
        reads.append(at)
        return await whole(file, at)

    monkeypatch.setattr(local_log, "_read", counted)
    data = b"".join(record("stdout", NOW + n, b"0123456789" * 9) for n in range(20_000))
    (tmp_path / "container.log").write_bytes(data)
    followed = Followed(tmp_path)
    followed.over = True
    await asyncio.wait_for(followed.reader, 30)
    assert followed.lines.qsize() == 20_000
    assert len(reads) <= len(data) // local_log.READ_BYTES + 5
    followed.watches.close()
