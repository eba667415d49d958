"""What the views of telemetry take and give."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_datetime
from rest_framework import serializers

from skep_platform.telemetry import queries
from skep_platform.telemetry.merged_lines import settle

MAX_LIMIT = 1024 * 1024
DEFAULT_LIMIT = 256 * 1024
MAX_NEEDLE = 256
MAX_BIG = 2**63 - 1
Serializer = serializers.Serializer[Any]


class WhichSerializer(Serializer):
    rank = serializers.IntegerField(
        min_value=0, max_value=2**31 - 1, required=False, help_text="only this task's"
    )
    role = serializers.CharField(max_length=255, required=False, help_text="only its tasks'")
    attempt = serializers.IntegerField(
        min_value=1, max_value=2**31 - 1, required=False, help_text="only this job attempt's"
    )
    stream = serializers.ChoiceField(queries.STREAMS, required=False)


class ProgressSerializer(Serializer):
    progress = serializers.ChoiceField(
        ("final", "raw"),
        default="final",
        help_text="what progress bars wrote over: left out, or as it was written",
    )


class JobLogsQuerySerializer(WhichSerializer, ProgressSerializer):
    cursor = serializers.IntegerField(
        min_value=0, max_value=MAX_BIG, default=0, help_text="`next` of the last answer"
    )
    limit = serializers.IntegerField(
        min_value=1, max_value=MAX_LIMIT, default=DEFAULT_LIMIT, help_text="bytes, about"
    )
    tail = serializers.IntegerField(
        min_value=1, max_value=100_000, required=False, help_text="the newest lines instead"
    )
    before = serializers.IntegerField(
        min_value=0,
        max_value=MAX_BIG,
        required=False,
        help_text="what comes before this cursor instead",
    )
    times = serializers.BooleanField(default=False, help_text="fill in `line_times`")


class SearchQuerySerializer(WhichSerializer):
    q = serializers.CharField(trim_whitespace=False, help_text="text within a line")
    regex = serializers.BooleanField(
        default=False, help_text="`q` is a regular expression of RE2, else it is literal text"
    )
    ignore_case = serializers.BooleanField(default=False)
    around = serializers.IntegerField(
        min_value=0, max_value=20, default=0, help_text="lines before and after each match"
    )
    limit = serializers.IntegerField(min_value=1, max_value=1000, default=100, help_text="matches")
    cursor = serializers.CharField(default="", allow_blank=True)

    def validate_q(self, q: str) -> str:
        if "\n" in q or len(q.encode()) > MAX_NEEDLE:
            raise serializers.ValidationError(f"One line of at most {MAX_NEEDLE} bytes, please.")
        return q


class DownloadQuerySerializer(WhichSerializer):
    prefix = serializers.BooleanField(
        allow_null=True,
        default=None,
        help_text="name the task before each line; default: when there may be several",
    )
    progress = serializers.ChoiceField(
        ("final", "raw"), default="raw", help_text="final: without what progress bars wrote over"
    )
    timestamps = serializers.BooleanField(
        default=False, help_text="begin each line with its time, behind the task's name"
    )

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return super().get_fields() | {
            "as": serializers.ChoiceField(
                ("text", "jsonl"),
                default="text",
                help_text="jsonl: an object for each line with its time, task and stream",
            )
        }


class StreamQuerySerializer(ProgressSerializer):
    offset = serializers.IntegerField(min_value=0, max_value=MAX_BIG, default=0, help_text="bytes")
    limit = serializers.IntegerField(min_value=1, max_value=MAX_LIMIT, default=DEFAULT_LIMIT)
    tail = serializers.IntegerField(
        min_value=1, max_value=MAX_LIMIT, required=False, help_text="the newest bytes instead"
    )
    raw = serializers.BooleanField(
        default=False, help_text="the whole stream from `offset` as plain bytes"
    )


class MetricsQuerySerializer(Serializer):
    since = serializers.CharField(
        required=False, help_text="seconds since the epoch, or ISO 8601; default: the job's start"
    )

    until = serializers.CharField(required=False, help_text="the same; default: now")

    def validate_since(self, text: str) -> datetime:
        return self._moment(text)

    def validate_until(self, text: str) -> datetime:
        return self._moment(text)

    def _moment(self, text: str) -> datetime:
        with suppress(ValueError, OverflowError, OSError):
            return datetime.fromtimestamp(float(text), UTC)
        with suppress(ValueError):
            if moment := parse_datetime(text):
                return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        raise serializers.ValidationError("Seconds since the epoch or an ISO 8601 time.")


class PredictionScoreSerializer(Serializer):
    source = serializers.CharField(  # type: ignore[assignment]
        allow_blank=True,
        help_text="Earlier jobs of the same name, with the same command, or on as many GPUs "
        "(gpus); empty: jobs without a prediction.",
    )
    jobs = serializers.IntegerField(help_text="That succeeded.")
    intervals = serializers.IntegerField(help_text="Of them were predicted with an interval.")
    coverage = serializers.FloatField(
        allow_null=True, help_text="Share of the intervals that held the duration."
    )
    median_error = serializers.FloatField(
        allow_null=True, help_text="|predicted - actual| / actual, of half of the jobs at most."
    )


class StartScoreSerializer(Serializer):
    jobs = serializers.IntegerField(help_text="That started and had an interval while they waited.")
    coverage = serializers.FloatField(
        allow_null=True, help_text="Share of them that started within the first one they had."
    )


class PredictionScoresSerializer(Serializer):
    days = serializers.IntegerField()
    promised_coverage = serializers.FloatField()
    sources = PredictionScoreSerializer(many=True)
    starts = StartScoreSerializer()


class LogPlaceSerializer(Serializer):
    """Whose output it is, and where in it."""

    cursor = serializers.IntegerField()
    attempt_id = serializers.UUIDField()
    role = serializers.CharField()
    index = serializers.IntegerField()
    rank = serializers.IntegerField()
    stream = serializers.ChoiceField(queries.STREAMS)
    offset = serializers.IntegerField(help_text="bytes from the start of the stream")
    at = serializers.DateTimeField(help_text="when the first line was written")
    text = serializers.CharField()


class LogChunkSerializer(LogPlaceSerializer):
    """Consecutive lines of one task. A chunk comes in several parts, each with its cursor, where
    lines of others were written in between."""

    line_times = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="with `times`: microseconds from `at` to each line of `text`",
    )


class JobLogsSerializer(Serializer):
    chunks = LogChunkSerializer(many=True)
    next = serializers.IntegerField(help_text="cursor of what follows")
    more = serializers.BooleanField(
        help_text="more lies there already: behind `next`; before it with `tail` and `before`"
    )
    complete = serializers.BooleanField(help_text="the job ended and all bytes were read")


class MatchSerializer(LogPlaceSerializer):
    """A line; `cursor` is of the chunk where it ends, `offset` is where the match begins."""

    begin = serializers.IntegerField(help_text="of the match in `text`, in characters")
    end = serializers.IntegerField()
    before = serializers.ListField(child=serializers.CharField(), help_text="`around` lines")
    after = serializers.ListField(child=serializers.CharField())


class SearchSerializer(Serializer):
    matches = MatchSerializer(many=True)
    next = serializers.CharField(allow_null=True, help_text="null: the end was reached")


class StreamLogSerializer(Serializer):
    attempt_id = serializers.UUIDField()
    stream = serializers.ChoiceField(queries.STREAMS)
    offset = serializers.IntegerField()
    next_offset = serializers.IntegerField()
    size = serializers.IntegerField(help_text="bytes stored so far")
    complete = serializers.BooleanField()
    text = serializers.CharField()


class PointsField(serializers.ListField):
    child = serializers.ListField(
        child=serializers.FloatField(allow_null=True), min_length=3, max_length=7
    )


class GpuSeriesSerializer(Serializer):
    uuid = serializers.CharField()
    model = serializers.CharField()
    node = serializers.CharField()
    attempt_id = serializers.UUIDField()
    role = serializers.CharField()
    index = serializers.IntegerField()
    points = PointsField(
        help_text="[seconds since the epoch, percent busy, memory MB, W]; W: null if not measured"
    )


class TaskSeriesSerializer(Serializer):
    attempt_id = serializers.UUIDField()
    role = serializers.CharField()
    index = serializers.IntegerField()
    points = PointsField(
        help_text="[seconds since the epoch, percent of a core, memory MB, and in bytes per second "
        "what was received, sent, read from disks and written]; null: not measured"
    )


class JobMetricsSerializer(Serializer):
    step_s = serializers.IntegerField(help_text="seconds between two points")
    gpus = GpuSeriesSerializer(many=True)
    tasks = TaskSeriesSerializer(many=True)


class AdviceSerializer(Serializer):
    code = serializers.CharField()
    message = serializers.CharField()
    details = serializers.DictField()


class AskedSerializer(Serializer):
    gpus = serializers.IntegerField(help_text="of the whole job")
    cpus = serializers.FloatField(help_text="cores of one task, of the largest role")
    memory_mb = serializers.IntegerField(help_text="of one task, of the largest role")


class JobUseSerializer(Serializer):
    gpu_hours = serializers.FloatField(help_text="held, whether used or not, over all attempts")
    gpu_utilization = serializers.FloatField(
        allow_null=True, help_text="percent, mean over the time held; null: not measured"
    )
    gpu_memory_peak_mb = serializers.IntegerField(allow_null=True, help_text="of one GPU")
    cpu_percent = serializers.FloatField(allow_null=True, help_text="mean of a task; 100: one core")
    memory_peak_mb = serializers.IntegerField(allow_null=True, help_text="of one task")
    asked = AskedSerializer()
    advice = AdviceSerializer(many=True)


def which_streams(asked: Mapping[str, Any]) -> queries.Filter:
    """Return the streams that the checked parameters of a `WhichSerializer` select."""
    return queries.Filter(**{name: asked.get(name) for name in queries.Filter.__slots__})


def shown(asked: Mapping[str, Any], text: str) -> str:
    """Return the text of a log as the checked parameters of a `ProgressSerializer` ask for it."""
    return text if asked["progress"] == "raw" else settle(text)
