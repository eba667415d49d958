"""Spans without a collector, and what a malformed traceparent does."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.support.trace_collector import TraceCollector

from skep_agent import tracing

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
IMPORTED = """
import sys
from skep_agent import tracing
with tracing.span("job.submit", "", {"skep.gpus": 1}) as span:
    print(span.traceparent, [name for name in sys.modules if name.startswith("opentelemetry")])
"""


@pytest.fixture
def collector(monkeypatch):
    """Tracing as a new process would begin it, with a collector."""
    with TraceCollector() as listening:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", listening.url)
        monkeypatch.setattr(tracing, "_tracing", tracing._Tracing())
        yield listening
        tracing._tracing.provider.shutdown()


def test_without_an_endpoint_nothing_is_imported_and_no_context_is_passed_on():
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, env={})
    assert done.stdout == " []\n", done.stderr


@pytest.mark.parametrize(
    "parent", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", PARENT + "\n"]
)
def test_a_parent_that_is_none_begins_a_trace(collector, parent):
    with tracing.span("job.submit", parent) as span:
        assert tracing.TRACEPARENT.fullmatch(span.traceparent)
        assert len(span.traceparent) == tracing.TRACEPARENT_LENGTH
    tracing.flush()
    assert [found.parent for found in collector.spans] == [""]


def test_a_span_within_is_a_child_and_a_failure_has_its_code_and_no_text(collector):
    class Refused(Exception):
        code = "exceeds_quota"

    def refuse() -> None:
        with tracing.span("request", PARENT), tracing.span("job.submit"):
            raise Refused("the password is hunter2")

    with pytest.raises(Refused):
        refuse()
    tracing.flush()
    inner, outer = collector.spans
    assert (inner.parent, outer.parent) == (outer.id, PARENT.split("-")[2])
    assert (inner.failed, inner.attributes["error.type"]) == (True, "exceeds_quota")
    assert b"hunter2" not in b"".join(collector.bodies)
