"""Traces by OpenTelemetry, from the submit of a job to the start of its containers.

They are made where OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) is set and
the packages of `skep[tracing]` are installed. Everywhere else nothing is imported, and a span costs
the comparison of a variable. The platform and the agent share this module.

The context of a span travels as the `traceparent` of W3C Trace Context: in the row of the job and
in the message to the node. Attributes are ids, names, codes and numbers, never what a user or a
node wrote: no command, variable, message of an error or query string.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import structlog

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
NAME = "OTEL_SERVICE_NAME"
TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
TRACEPARENT_LENGTH = 55
Value = str | bool | int | float
log = structlog.get_logger(__name__)


class Span:
    """A span under way; without tracing, one that records nothing."""

    def __init__(self, recorded: Any = None) -> None:
        self._recorded = recorded

    @property
    def traceparent(self) -> str:
        """Return what a child of this span is to be given; "" without tracing."""
        if self._recorded is None:
            return ""
        context = self._recorded.get_span_context()
        if not context.is_valid:
            return ""
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"

    def note(self, attributes: Mapping[str, Value]) -> None:
        """Add attributes."""
        if self._recorded is not None:
            self._recorded.set_attributes(attributes)

    def rename(self, name: str) -> None:
        if self._recorded is not None:
            self._recorded.update_name(name)

    def failed(self, code: str) -> None:
        """Record that it failed, with a stable code and without a text."""
        if self._recorded is not None:
            from opentelemetry.trace import Status, StatusCode

            self._recorded.set_status(Status(StatusCode.ERROR))
            self._recorded.set_attribute("error.type", code)


class _Tracing:
    """What this process knows of tracing: looked up once, with its first span."""

    def __init__(self) -> None:
        self.service = "skep"
        self.tracer: Any = None
        self.provider: Any = None
        self.known = False
        self.lock = threading.Lock()


_tracing = _Tracing()
_NOTHING = Span()


def name_service(service: str) -> None:
    """Set under which name this process appears, unless OTEL_SERVICE_NAME says so."""
    _tracing.service = service


@contextmanager
def span(
    name: str,
    parent: str | None = None,
    attributes: Mapping[str, Value] | None = None,
    *,
    start: datetime | None = None,
    server: bool = False,
) -> Iterator[Span]:
    """Record what happens in the block as a span, which is the parent of those that begin within.

    `parent` is a traceparent: None means the present span of this thread or task, and "" or one
    that is malformed the beginning of a trace. `start` is when it began, if earlier than now.
    An exception marks the span as failed, with its class or `code`, and goes on.
    """
    tracer = _tracer()
    if tracer is None:
        yield _NOTHING
        return
    from opentelemetry.trace import SpanKind

    with tracer.start_as_current_span(
        name,
        context=None if parent is None else _context(parent),
        kind=SpanKind.SERVER if server else SpanKind.INTERNAL,
        attributes=attributes,
        start_time=None if start is None else int(start.timestamp() * 1e9),
        record_exception=False,  # its text may hold what a user wrote
        set_status_on_exception=False,
    ) as recorded:
        made = Span(recorded)
        try:
            yield made
        except Exception as error:
            made.failed(str(getattr(error, "code", "") or type(error).__name__))
            raise


def enabled() -> bool:
    """Return whether spans are recorded: what only they need need not be looked up otherwise."""
    return _tracer() is not None


def flush() -> None:
    """Send what has ended, before the process does."""
    if _tracing.provider is not None:
        _tracing.provider.force_flush()


def _tracer() -> Any:
    if not _tracing.known:
        with _tracing.lock:
            if not _tracing.known:
                _tracing.tracer = _made()
                _tracing.known = True
    return _tracing.tracer


def _made() -> Any:
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        log.error(
            "tracing_unavailable",
            problem=f"{error}. Install skep[tracing], or unset {' and '.join(ENDPOINTS)}.",
        )
        return None
    about: Mapping[str, str] = {"service.version": _version(), "service.namespace": "skep"}
    if not os.environ.get(NAME):
        about = {**about, "service.name": _tracing.service}
    provider = TracerProvider(resource=Resource.create(about))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracing.provider = provider
    return provider.get_tracer("skep", _version())


def _context(parent: str) -> Any:
    """Return the context of a traceparent; an empty one begins a trace."""
    from opentelemetry.context import Context
    from opentelemetry.trace import (
        NonRecordingSpan,
        SpanContext,
        TraceFlags,
        set_span_in_context,
    )

    if not TRACEPARENT.fullmatch(parent):
        return Context()
    _, trace_id, span_id, flags = parent.split("-")
    found = SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
    )
    return set_span_in_context(NonRecordingSpan(found), Context()) if found.is_valid else Context()


def _version() -> str:
    try:
        return version("skep")
    except PackageNotFoundError:
        return ""
