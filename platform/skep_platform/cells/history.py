"""How much a virtual cluster owned, used, borrowed and lent, summed up where the rows are."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from django.db import connection
from django.utils import timezone

from skep_platform.tenancy.models import VirtualCluster

LEAST_STEP_S = 60
MAX_POINTS = 500  # per model

USE = """
SELECT gpu_model, floor(extract(epoch FROM at) / %(step)s) * %(step)s,
       avg(owned), avg(used), avg(borrowed), avg(lent), avg(bad), avg(waiting),
       avg(unavailable)
  FROM scheduling_vcuse
 WHERE vc_id = %(vc)s AND at >= %(since)s
 GROUP BY 1, 2 ORDER BY 1, 2
"""


def of(vc: VirtualCluster, since: datetime, step_s: int = 0) -> dict[str, Any]:
    """Means over steps of at least `step_s` seconds, more where they would be too many."""
    seconds = max((timezone.now() - since).total_seconds(), 0)
    step = max(step_s, LEAST_STEP_S * math.ceil(seconds / MAX_POINTS / LEAST_STEP_S), LEAST_STEP_S)
    models: dict[str, dict[str, list[list[float]]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(USE, {"vc": vc.pk, "since": since, "step": step})
        for model, at, *values in cursor.fetchall():
            points = models.setdefault(model, {"points": []})["points"]
            points.append([float(at), *(round(float(value), 2) for value in values)])
    return {"step_s": step, "models": models}
