"""Who runs in a virtual cluster, and who waits in which order, with the starts to expect."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request

from skep_platform.core.errors import SkepError
from skep_platform.tenancy.models import VirtualCluster


def page(request: Request, vc: VirtualCluster, limit: int, cursor: int) -> dict[str, Any]:
    raise SkepError("The scheduler does not tell its queue yet; try again.", code="not_ready")
