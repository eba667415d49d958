"""When a job would start if it were submitted now.

The scheduling app, which is above this one, says so: it sets the source when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable

from skep_platform.jobs.protocol import JobFile
from skep_platform.jobs.stories import Reason
from skep_platform.tenancy.models import VirtualCluster

Source = Callable[[JobFile, VirtualCluster], Reason]
_source: Source | None = None


def told_by(source: Source) -> None:
    """`source(job, vc)` answers {code, message, details}; code "starts_now" when it fits."""
    global _source
    _source = source


def of(job: JobFile, vc: VirtualCluster) -> Reason | None:
    return _source(job, vc) if _source else None
