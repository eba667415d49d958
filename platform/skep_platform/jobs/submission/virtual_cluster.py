"""The virtual cluster of a job that is submitted, and all that a submit reads of it.

A submit runs for every job, so this is one statement, written by hand: building it with the ORM,
and mapping its columns anew each time, costs more than the database takes to run it. A user who
submits again within a second gets what was read before.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from skep_jobfile import JobFile
from skep_platform.accounts.models import User
from skep_platform.core.bulk import fetch, loaded
from skep_platform.core.remembered import Remembered
from skep_platform.images.models import Image, ImageRule
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import (
    Membership,
    Preloaded,
    Quota,
    VcCell,
    VcLimit,
    VirtualCluster,
)

MOST_NAMED = 10
# As of tokens: what another process takes from a user works here for so many seconds more.
FRESH_S = 1.0
_remembered: Remembered[list[tuple[Any, ...]]] = Remembered(FRESH_S)
_remembered.forget_at_changes_of(VirtualCluster, Membership, VcLimit, Quota, VcCell)
_remembered.forget_at_changes_of(Image, Image.virtual_clusters.through, ImageRule)


def find(user: User, job: JobFile) -> VirtualCluster | None:
    """Return the virtual cluster of the job, with `own_role` and `preloaded`; None also when it
    exists and the user is not a member of it. A member of exactly one need not name it; with the
    token of a job it is that of the job."""
    named, images = names_one(job), catalogue_names(job)
    params = {
        "user": user.pk,
        "admin": user.is_superuser if user.only_vc else user.is_admin,
        "only": user.only_vc,
        "named": named,
        "name": job.defaults.virtual_cluster,
        "images": images,
        "submitters": list(Membership.SUBMITTERS),
        "most": MOST_NAMED,
    }
    key = (*(params[name] for name in ("user", "admin", "only", "named", "name")), *images)
    found = [_row(values) for values in _remembered.get(key, lambda: fetch(_find(), params))]
    if user.only_vc is not None:
        for row in found:
            row.own_role = tenancy.role_in(user, row)
    mine = [row for row in found if row.own_role in Membership.SUBMITTERS]
    if not named and len(mine) == 1:
        return mine[0]
    return next((row for row in found if row.name == job.defaults.virtual_cluster), None)


def names_one(job: JobFile) -> bool:
    """Return whether the job file names a virtual cluster."""
    return "virtual_cluster" in job.defaults.model_fields_set


def catalogue_names(job: JobFile) -> list[str]:
    """Return the uris of images that may be names in the catalogue: plain words."""
    uris = {job.image_of(role).uri for role in job.task_roles.values()}
    return sorted(uri for uri in uris if not set(uri) & set("/:@.+"))


def _row(values: tuple[Any, ...]) -> Any:
    """Return a virtual cluster with what was read along with it. The columns are those of
    `_find`."""
    *columns, own_role, limits, patterns, claims, images = values
    vc = loaded(VirtualCluster, _column_names(), columns)
    vc.policy = vc.policy and json.loads(vc.policy)
    vc.own_role = own_role  # type: ignore[attr-defined]
    known = json.loads(images)
    vc.preloaded = Preloaded(
        json.loads(limits),
        patterns,
        [(cell_type, model, number) for cell_type, model, number in json.loads(claims)],
        {name: reference for name, (reference, _) in known.items()},
        {name: driver for name, (_, driver) in known.items() if driver},
    )
    return vc


@lru_cache
def _find() -> str:
    """Return the query as SQL."""
    columns = (f'v."{field.column}"' for field in VirtualCluster._meta.concrete_fields)
    return FIND.replace("v.*", ", ".join(columns))


@lru_cache
def _column_names() -> list[str]:
    return [field.attname for field in VirtualCluster._meta.concrete_fields]


# Without a name it also returns those in which the user may run jobs.
FIND = """
SELECT v.*,
       (SELECT m.role FROM tenancy_membership m
         WHERE m.vc_id = v.id AND m.user_id = %(user)s) AS own_role,
       (SELECT coalesce(jsonb_object_agg(l.name, l.value), '{}') FROM tenancy_vclimit l
         WHERE l.vc_id = v.id)::text AS limits_json,
       ARRAY(SELECT r.pattern FROM images_imagerule r
              WHERE r.vc_id = v.id ORDER BY 1) AS image_patterns,
       (SELECT coalesce(jsonb_agg(jsonb_build_array(c.cell_type, c.model, c.number)), '[]')
          FROM (SELECT '' AS cell_type, gpu_model AS model, gpus AS number
                  FROM tenancy_quota WHERE vc_id = v.id AND gpus > 0
                UNION ALL
                SELECT cell_type, '', number
                  FROM tenancy_vccell WHERE vc_id = v.id AND number > 0) AS c)::text AS claims_json,
       (SELECT coalesce(jsonb_object_agg(i.name, ARRAY[i.reference, i.min_driver]), '{}')
          FROM images_image i
         WHERE i.name = ANY(%(images)s)
           AND (NOT EXISTS (SELECT FROM images_image_virtual_clusters a WHERE a.image_id = i.id)
                OR EXISTS (SELECT FROM images_image_virtual_clusters a
                            WHERE a.image_id = i.id AND a.virtualcluster_id = v.id))
       )::text AS images_json
  FROM tenancy_virtualcluster v
 WHERE (%(only)s::uuid IS NULL OR v.id = %(only)s::uuid)
   AND (((v.name = %(name)s OR (NOT %(named)s AND %(only)s::uuid IS NOT NULL))
         AND (%(admin)s OR EXISTS (SELECT FROM tenancy_membership m
                                    WHERE m.vc_id = v.id AND m.user_id = %(user)s)))
        OR (NOT %(named)s AND v.id IN (SELECT m.vc_id FROM tenancy_membership m
                                        WHERE m.user_id = %(user)s
                                          AND m.role = ANY(%(submitters)s))))
 ORDER BY v.name = %(name)s DESC, v.name LIMIT %(most)s + 1
"""
