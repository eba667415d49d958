"""REST of telemetry: merged logs of a job, one stream of an attempt, search, metrics, use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast
from uuid import UUID

from django.forms.models import model_to_dict
from django.http import HttpResponseBase, StreamingHttpResponse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_agent.frames import count_segments
from skep_platform.accounts.models import User
from skep_platform.core.api import IsAdmin, parameters
from skep_platform.core.errors import NotFound
from skep_platform.core.throttling import Searches
from skep_platform.jobs import queries as jobs
from skep_platform.jobs.models import TaskAttempt
from skep_platform.jobs.submission.prediction import COVERAGE
from skep_platform.telemetry import calibration, queries
from skep_platform.telemetry.download import job_download, stream_download
from skep_platform.telemetry.job_use import asked_by, use_of
from skep_platform.telemetry.merged_lines import to_datetime
from skep_platform.telemetry.metrics import GpuSeries, JobMetrics, TaskSeries, job_metrics
from skep_platform.telemetry.search import Match, SearchCursor, finder, search
from skep_platform.telemetry.serializers import (
    DownloadQuerySerializer,
    JobLogsQuerySerializer,
    JobLogsSerializer,
    JobMetricsSerializer,
    JobUseSerializer,
    MetricsQuerySerializer,
    PredictionScoresSerializer,
    SearchQuerySerializer,
    SearchSerializer,
    StreamLogSerializer,
    StreamQuerySerializer,
    shown,
    which_streams,
)


class JobLogsView(APIView):
    job_tokens = True
    """The output of all tasks of a job. An answer has chunks in order of arrival; within it, their
    lines are ordered by time, for which a chunk may come in several parts. Read on with `next`; the
    live topic "job-logs" rings when there is more."""

    @extend_schema(
        operation_id="job_logs", parameters=[JobLogsQuerySerializer], responses=JobLogsSerializer
    )
    def get(self, request: Request, id: UUID) -> Response:
        asked = parameters(JobLogsQuerySerializer, request)
        job = queries.find_log(_user(request), id)
        if lines := asked.get("tail"):
            page = queries.job_tail(job, which_streams(asked), lines, asked["limit"])
        elif (before := asked.get("before")) is not None:
            page = queries.job_log_before(job, which_streams(asked), before, asked["limit"])
        else:
            page = queries.job_log(job, which_streams(asked), asked["cursor"], asked["limit"])
        chunks = [
            _place(t.chunk, t.times[0], t.offset, shown(asked, t.text))
            | {"line_times": _offsets(t) if asked["times"] else []}
            for t in page.texts
        ]
        return Response(
            {
                "chunks": chunks,
                "next": page.next,
                "more": page.more,
                "complete": page.complete,
            }
        )


class JobLogDownloadView(APIView):
    job_tokens = True
    """A job's merged log as one file: whole lines in the order of their times, as far as it is
    stored now. Lines that arrived more than 16 MiB later than younger ones of other tasks come
    late."""

    @extend_schema(
        operation_id="job_logs_download",
        parameters=[DownloadQuerySerializer],
        responses={(200, "text/plain"): OpenApiTypes.STR},
    )
    def get(self, request: Request, id: UUID) -> HttpResponseBase:
        asked = parameters(DownloadQuerySerializer, request)
        job = queries.find_log(_user(request), id)
        several = job.tasks_total > 1 and asked.get("rank") is None
        text = job_download(
            job,
            which_streams(asked),
            prefix=several if asked["prefix"] is None else asked["prefix"],
            settled=asked["progress"] == "final",
            timestamps=asked["timestamps"],
            as_json=asked["as"] == "jsonl",
        )
        return _file(text, f"{job.name}.{'jsonl' if asked['as'] == 'jsonl' else 'log'}")


class JobLogSearchView(APIView):
    job_tokens = True
    """Lines of a job's merged log with a text in them. Each request takes a bounded time: go on
    with `next`, also when an answer has no match."""

    throttle_classes = (Searches,)

    @extend_schema(
        operation_id="job_logs_search",
        parameters=[SearchQuerySerializer],
        responses=SearchSerializer,
    )
    def get(self, request: Request, id: UUID) -> Response:
        asked = parameters(SearchQuerySerializer, request)
        job = queries.find_log(_user(request), id)
        find = finder(asked["q"], regex=asked["regex"], ignore_case=asked["ignore_case"])
        cursor = SearchCursor.parse(asked["cursor"])
        found = search(job, which_streams(asked), find, cursor, asked["limit"], asked["around"])
        return Response({"matches": [_match(m) for m in found.matches], "next": found.next})


class StreamLogView(APIView):
    job_tokens = True
    """One stream of one task attempt by byte offset, its tail, or (`raw`) all of it."""

    @extend_schema(
        operation_id="attempt_logs",
        parameters=[
            OpenApiParameter(
                "stream", OpenApiTypes.STR, OpenApiParameter.PATH, enum=queries.STREAMS
            ),
            StreamQuerySerializer,
        ],
        responses={
            (200, "application/json"): StreamLogSerializer,
            (200, "text/plain"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request, id: UUID, stream: str) -> HttpResponseBase:
        if stream not in queries.STREAMS:
            raise NotFound("A log stream is stdout or stderr.")
        asked = parameters(StreamQuerySerializer, request)
        attempt = queries.find_attempt(_user(request), id)
        if asked["raw"]:
            return _download(attempt, stream, asked["offset"])
        if tail := asked.get("tail"):
            part = queries.stream_tail(attempt, stream, tail)
        else:
            part = queries.stream_part(attempt, stream, asked["offset"], asked["limit"])
        values = {name: getattr(part, name) for name in queries.StreamPart.__slots__}
        values["text"] = shown(asked, part.text)
        return Response({"attempt_id": attempt.pk, "stream": stream} | values)


class JobMetricsView(APIView):
    job_tokens = True
    """Use of the GPUs a job holds or held, and of CPU and memory of its tasks."""

    @extend_schema(
        operation_id="job_metrics",
        parameters=[MetricsQuerySerializer],
        responses=JobMetricsSerializer,
    )
    def get(self, request: Request, id: UUID) -> Response:
        asked = parameters(MetricsQuerySerializer, request)
        job = jobs.find(_user(request), id)
        return Response(_metrics(job_metrics(job, asked.get("since"), asked.get("until"))))


class JobUseView(APIView):
    job_tokens = True
    """What a finished job made of what it was given, with advice. `not_yet` until it has ended and
    its last samples are stored, which takes about half a minute."""

    @extend_schema(operation_id="job_use", responses=JobUseSerializer)
    def get(self, request: Request, id: UUID) -> Response:
        job = jobs.find(_user(request), id)
        use, asked = use_of(job), asked_by(job)
        return Response(JobUseSerializer(model_to_dict(use) | {"asked": asked}).data)


class PredictionsView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="get_predictions", responses=PredictionScoresSerializer)
    def get(self, request: Request) -> Response:
        """How well the durations of jobs were predicted over the last 30 days, and how often the
        intervals of their starts held."""
        scores = dict(calibration.last_days())
        starts = scores.pop(calibration.START, calibration.Score(calibration.START))
        answer = {
            "days": calibration.DAYS,
            "promised_coverage": COVERAGE,
            "sources": list(scores.values()),
            "starts": starts,
        }
        return Response(PredictionScoresSerializer(answer).data)


def _user(request: Request) -> User:
    return cast(User, request.user)


def _download(attempt: TaskAttempt, stream: str, offset: int) -> StreamingHttpResponse:
    end = queries.stream_size(attempt, stream)
    offset = min(offset, end)
    response = _file(stream_download(attempt, stream, offset, end), f"{attempt.pk}-{stream}.log")
    response["Content-Length"] = str(end - offset)
    return response


def _file(text: AsyncIterator[bytes], name: str) -> StreamingHttpResponse:
    """To be saved, never shown in a page of ours."""
    response = StreamingHttpResponse(text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return response


def _offsets(text: queries.Text) -> list[int]:
    """Return the microseconds from the first line's time to that of each line."""
    shown = count_segments(text.text.encode())
    return [(at - text.times[0]) // 1000 for at in text.times[:shown]]


def _place(chunk: queries.Chunk, at: int, offset: int, text: str) -> dict[str, Any]:
    return {
        "cursor": chunk.cursor,
        "attempt_id": chunk.attempt_id,
        "role": chunk.role,
        "index": chunk.index,
        "rank": chunk.rank,
        "stream": chunk.stream,
        "offset": offset,
        "at": to_datetime(at),
        "text": text,
    }


def _match(match: Match) -> dict[str, Any]:
    names = ("begin", "end", "before", "after")
    return _place(match.chunk, match.at, match.offset, match.text) | {
        n: getattr(match, n) for n in names
    }


def _metrics(metrics: JobMetrics) -> dict[str, Any]:
    return {
        "step_s": metrics.step_s,
        "gpus": [
            _task(s) | {"uuid": s.uuid, "model": s.attempt.gpu_model, "node": s.attempt.node.name}
            for s in metrics.gpus
        ],
        "tasks": [_task(s) for s in metrics.tasks],
    }


def _task(series: GpuSeries | TaskSeries) -> dict[str, Any]:
    attempt = series.attempt
    return {
        "attempt_id": attempt.pk,
        "role": attempt.role.name,
        "index": attempt.task.index,
        "points": series.points,
    }
