"""Log bytes are stored once each, whoever sends them how often and in whatever pieces."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.files.storage import storages
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.gateway_rows import frame, frames, running_attempt
from tests.support.platform_factories import make_node, place

from skep_agent.frames import LogFrame
from skep_agent.protocol import LogAck, LogPosition
from skep_platform.jobs.models import Task, TaskAttempt
from skep_platform.telemetry import appending
from skep_platform.telemetry.appending import MAX_CHUNK, Sizes
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.services import (
    append_logs,
    append_logs_of_nodes,
    log_positions,
)


def stored(attempt: TaskAttempt, stream: str = "stdout") -> bytes:
    """The bytes of a stream as readers find them; fails on a hole or an overlap."""
    data = b""
    for chunk in LogChunk.objects.filter(attempt=attempt, stream=stream).order_by("offset"):
        assert chunk.offset == len(data)
        with storages["logs"].open(chunk.key) as file:
            piece = file.read()
        assert len(piece) == chunk.size
        data += piece
    return data


def ack(
    attempt: TaskAttempt,
    offset: int,
    *,
    end: bool = False,
    again: bool = False,
    stream: str = "stdout",
) -> LogAck:
    return LogAck(attempt_id=str(attempt.pk), stream=stream, offset=offset, end=end, again=again)


@pytest.mark.django_db
class TestAppend:
    def test_frames_of_one_call_become_one_chunk_per_stream(self):
        attempt = running_attempt()
        acks = append_logs(
            attempt.node_id,
            [
                frame(attempt, 0, b"one\n"),
                frame(attempt, 0, b"oops\n", "stderr"),
                frame(attempt, 4, b"two\n"),
            ],
        )
        assert acks == [ack(attempt, 8), ack(attempt, 5, stream="stderr")]
        assert stored(attempt) == b"one\ntwo\n"
        assert stored(attempt, "stderr") == b"oops\n"
        assert LogChunk.objects.count() == 2

    def test_a_repeated_frame_changes_nothing(self):
        attempt = running_attempt()
        for _ in range(3):
            assert append_logs(attempt.node_id, [frame(attempt, 0, b"abc")]) == [ack(attempt, 3)]
        assert stored(attempt) == b"abc"

    def test_an_overlapping_frame_is_trimmed(self):
        attempt = running_attempt()
        append_logs(attempt.node_id, [frame(attempt, 0, b"abc")])
        assert append_logs(attempt.node_id, [frame(attempt, 1, b"bcde")]) == [ack(attempt, 5)]
        assert stored(attempt) == b"abcde"

    def test_a_frame_past_a_gap_is_refused_and_asked_for_again(self):
        attempt = running_attempt()
        append_logs(attempt.node_id, [frame(attempt, 0, b"abc")])
        asked = ack(attempt, 3, again=True)
        assert append_logs(attempt.node_id, [frame(attempt, 7, b"xyz")]) == [asked]
        assert stored(attempt) == b"abc"

    def test_the_end_marker_sets_the_final_size_of_its_stream_only(self):
        attempt = running_attempt()
        both = [frame(attempt, 0, b"abc"), frame(attempt, 3, b""), frame(attempt, 0, b"", "stderr")]
        assert append_logs(attempt.node_id, both[:2]) == [ack(attempt, 3, end=True)]
        attempt.refresh_from_db()
        assert attempt.log_sizes == {"stdout": 3}
        append_logs(attempt.node_id, both[2:])
        attempt.refresh_from_db()
        assert attempt.log_sizes == {"stdout": 3, "stderr": 0}

    def test_an_end_marker_past_a_gap_does_not_end_the_stream(self):
        attempt = running_attempt()
        assert append_logs(attempt.node_id, [frame(attempt, 9, b"")]) == [
            ack(attempt, 0, again=True)
        ]
        attempt.refresh_from_db()
        assert attempt.log_sizes == {}

    def test_more_than_a_chunk_at_once_is_stored_in_several(self):
        attempt = running_attempt()
        data = bytes(range(256)) * 1024 * 11  # 2.75 MiB
        acks = append_logs(attempt.node_id, frames(attempt, data, range(0, len(data), 256 * 1024)))
        assert acks == [ack(attempt, len(data), end=True)]
        assert stored(attempt) == data
        assert max(LogChunk.objects.values_list("size", flat=True)) <= MAX_CHUNK

    def test_many_nodes_cost_the_statements_of_one_and_none_writes_for_another(self):
        def cost(attempts: list[TaskAttempt]) -> int:
            batches = {
                a.node_id: [frame(a, 0, b"abc"), frame(a, 3, b""), frame(attempts[0], 0, b"xyz!")]
                for a in reversed(attempts[1:])
            }
            first = attempts[0]
            batches[first.node_id] = [frame(first, 0, b"abc"), frame(first, 3, b"")]
            with CaptureQueriesContext(connection) as captured:
                acks = append_logs_of_nodes(batches)
            for attempt in attempts:
                foreign = [ack(first, 4)] if attempt != first else []
                assert acks[attempt.node_id] == [*foreign, ack(attempt, 3, end=True)]
                assert stored(attempt) == b"abc"
                attempt.refresh_from_db()
                assert attempt.log_sizes == {"stdout": 3}
            return len(captured)

        alone, many = cost([running_attempt()]), cost([running_attempt() for _ in range(5)])
        assert many <= alone <= 6

    def test_the_ends_of_logs_without_output_are_stored_without_a_look_at_what_is_stored(self):
        attempts = [running_attempt() for _ in range(3)]
        batches = {a.node_id: [frame(a, 0, b"")] for a in attempts}
        with CaptureQueriesContext(connection) as captured:
            acks = append_logs_of_nodes(batches)
        assert all(acks[a.node_id] == [ack(a, 0, end=True)] for a in attempts)
        assert len(captured) == 2  # where the logs go on, and that they end there

    @pytest.mark.parametrize("at", [float("nan"), float("inf"), -1.0, 1e300])
    def test_26_a_nodes_mad_clock_is_not_believed(self, at):
        attempt = running_attempt()
        append_logs(attempt.node_id, [LogFrame(str(attempt.pk), "stdout", 0, at, b"x")])
        assert abs(LogChunk.objects.get().at.timestamp() - attempt.created_at.timestamp()) < 600

    def test_25_frames_for_an_attempt_on_another_node_are_not_stored(self):
        attempt, rogue = running_attempt(), make_node()
        evil = [frame(attempt, 0, b"forged"), frame(attempt, 6, b"")]
        assert append_logs(rogue.pk, evil) == [ack(attempt, 6, end=True)]
        append_logs(attempt.node_id, [frame(attempt, 0, b"true")])
        append_logs(rogue.pk, [frame(attempt, 4, b"forged")])
        assert stored(attempt) == b"true"
        attempt.refresh_from_db()
        assert attempt.log_sizes == {}

    @pytest.mark.parametrize("name", ["", "nonsense", "\x00", "0" * 32, "\ud800"])
    def test_26_frames_for_what_is_no_attempt_are_acknowledged_and_forgotten(self, name):
        node = make_node()
        frames = [LogFrame(name, "stdout", 0, 0.0, b"abc")]
        assert [(a.attempt_id, a.offset) for a in append_logs(node.pk, frames)] == [(name, 3)]
        assert not LogChunk.objects.exists()

    def test_a_call_costs_one_query_however_many_streams(self, django_assert_num_queries):
        node = make_node()
        attempts = [running_attempt(node) for _ in range(6)]
        append_logs(node.pk, [frame(a, 0, b"abc") for a in attempts])
        with django_assert_num_queries(1):
            append_logs(node.pk, [frame(a, 3, b"def") for a in attempts])
        with django_assert_num_queries(1):
            append_logs(node.pk, [frame(a, 6, b"") for a in attempts])


@pytest.mark.django_db
class TestStaleMemory:
    """Another process appended since this one last looked."""

    def other_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(appending, "_sizes", Sizes())

    def test_a_stale_size_collides_and_nothing_is_stored_twice(self, monkeypatch):
        attempt = running_attempt()
        node_id = attempt.node_id
        append_logs(node_id, [frame(attempt, 0, b"0123")])
        with monkeypatch.context() as elsewhere:
            self.other_process(elsewhere)
            append_logs(node_id, [frame(attempt, 4, b"4567")])
        assert append_logs(node_id, [frame(attempt, 4, b"45")]) == [ack(attempt, 8)]
        assert append_logs(node_id, [frame(attempt, 6, b"6789")]) == [ack(attempt, 10)]
        assert stored(attempt) == b"0123456789"

    def test_a_stale_size_with_many_chunks_ahead_never_overlaps(self, monkeypatch):
        attempt = running_attempt()
        node_id = attempt.node_id
        data = bytes(range(251)) * 12_000  # almost 3 MiB: three chunks
        step = 200_000
        parts = frames(attempt, data, range(0, len(data), step))
        append_logs(node_id, parts[:1])
        with monkeypatch.context() as elsewhere:
            self.other_process(elsewhere)
            append_logs(node_id, parts[:8])
        assert append_logs(node_id, parts) == [ack(attempt, len(data), end=True)]
        assert stored(attempt) == data

    def test_positions_come_from_the_database(self, monkeypatch):
        attempt, stranger = running_attempt(), running_attempt()
        append_logs(attempt.node_id, [frame(attempt, 0, b"abc")])
        with monkeypatch.context() as elsewhere:
            self.other_process(elsewhere)
            append_logs(attempt.node_id, [frame(attempt, 3, b"def")])
        asked = [str(attempt.pk), str(stranger.pk), "nonsense"]
        found = log_positions(attempt.node_id, asked)
        assert sorted(found, key=lambda p: p.stream) == [
            LogPosition(attempt_id=str(attempt.pk), stream="stderr", offset=0),
            LogPosition(attempt_id=str(attempt.pk), stream="stdout", offset=6),
        ]


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int]], list[int]]:
    """Output, pieces of it (start, end) in any order with repeats, and calls that share pieces."""
    data = draw(st.binary(min_size=1, max_size=60))
    at = st.integers(0, len(data))
    pieces = draw(st.lists(st.tuples(at, at).map(lambda p: (min(p), max(p))), max_size=25))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=25))
    return data, pieces, sizes


@pytest.mark.django_db
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(delivery=deliveries(), forget=st.lists(st.booleans(), max_size=25))
def test_any_splits_repeats_and_orders_store_a_prefix_then_all(one_node, delivery, forget):
    data, pieces, sizes = delivery
    attempt = running_attempt(one_node, gpus=0)
    caches = [Sizes(), Sizes()]  # of two web processes, each with its own memory
    forget = iter(forget)
    contiguous = 0
    while pieces:
        count = sizes.pop() if sizes else 1
        call, pieces = pieces[:count], pieces[count:]
        appending._sizes = caches[next(forget, False)]
        sent = [frame(attempt, a, data[a:b]) for a, b in call if a < b]
        for answer in append_logs(attempt.node_id, sent):
            for a, b in call:
                contiguous = b if a <= contiguous < b else contiguous
            assert answer.offset <= contiguous  # what a process remembers may be old, never wrong
            assert answer.offset == contiguous or not answer.again
            assert not answer.end
    assert stored(attempt) == data[:contiguous]
    append_logs(attempt.node_id, frames(attempt, data))
    assert stored(attempt) == data
    attempt.refresh_from_db()
    assert attempt.log_sizes == {"stdout": len(data)}


@pytest.fixture
def one_node(monkeypatch: pytest.MonkeyPatch, db: None):
    monkeypatch.setattr(appending, "_sizes", Sizes())
    return make_node()


@pytest.mark.django_db(transaction=True)
def test_many_writers_of_one_stream_store_each_byte_once():
    """Every thread acts as a process of its own, sending the whole stream in its own pieces."""
    attempt = running_attempt()
    data = bytes(range(256)) * 64

    def send(step: int) -> None:
        try:
            for part in frames(attempt, data, range(0, len(data), step)):
                append_logs(attempt.node_id, [part])
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(send, [1000, 777, 1234, 2048]))
    assert stored(attempt) == data


@pytest.mark.django_db(transaction=True)
def test_who_reads_by_cursor_misses_no_chunk_of_many_writers():
    """Chunk ids are drawn before they are committed; a reader must never see a later one first."""
    node = make_node()
    first = running_attempt(node, gpus=0)
    attempts = [first]
    for rank in range(1, 4):
        task = Task.objects.create(job=first.job, role=first.role, index=rank, rank=rank)
        attempts.append(place(first.job, [], node=node, rank=task.rank))
    writing = threading.Event()

    def write(attempt: TaskAttempt) -> None:
        try:
            for offset in range(60):
                append_logs(node.pk, [frame(attempt, offset, b"x")])
        finally:
            connection.close()

    def follow() -> list[int]:
        seen, cursor, last = [], 0, False
        try:
            while not last:
                last = writing.is_set()
                rows = LogChunk.objects.filter(job=first.job, id__gt=cursor).order_by("id")
                seen += rows.values_list("id", flat=True)
                cursor = seen[-1] if seen else 0
            return seen
        finally:
            connection.close()

    with ThreadPoolExecutor(5) as pool:
        reader = pool.submit(follow)
        list(pool.map(write, attempts))
        writing.set()
        assert reader.result() == list(LogChunk.objects.order_by("id").values_list("id", flat=True))
    assert LogChunk.objects.count() == 4 * 60
