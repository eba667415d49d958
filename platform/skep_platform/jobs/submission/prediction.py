"""How long a job is expected to run, by the earlier jobs of its owner that were called like it."""

from __future__ import annotations

import re

from skep_platform.accounts.models import User
from skep_platform.core.bulk import fetch

# What clones and scripts append to a name: a number, or eight hexadecimal digits.
SUFFIX = re.compile(r"[-_.]([0-9]{1,9}|[0-9a-f]{8})$")


def base_name(name: str) -> str:
    """Return the name without the suffix by which repeated submissions differ."""
    return SUFFIX.sub("", name) or name


def predicted_duration(user: User, name: str) -> int | None:
    """Return the median duration in seconds of the user's last `LIKE_IT` jobs that succeeded under
    this name, whatever number is behind it; None: there was none. One query, which reads `LIKE_IT`
    rows of an index, however many jobs the user has."""
    params = {"owner": user.pk, "base": base_name(name), "like_it": LIKE_IT}
    [(median,)] = fetch(MEDIAN, params)
    return None if median is None else max(round(median), 1)


LIKE_IT = 20

# The index `job_by_base_name` has the same expression, and the pattern is `SUFFIX`.
MEDIAN = r"""
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds)
  FROM (SELECT extract(epoch FROM finished_at - started_at)::float8 AS seconds
          FROM jobs_job
         WHERE owner_id = %(owner)s AND state = 'SUCCEEDED'
           AND started_at IS NOT NULL AND finished_at IS NOT NULL
           AND %(base)s = coalesce(
                 nullif(regexp_replace(name, '[-_.]([0-9]{1,9}|[0-9a-f]{8})$', ''), ''), name)
         ORDER BY created_at DESC LIMIT %(like_it)s) AS like_it
"""
