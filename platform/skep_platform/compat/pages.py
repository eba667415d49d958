"""The addresses of OpenPAI's pages, which lead to those of Skep."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseRedirect
from django.views.decorators.http import require_safe

from skep_platform.jobs import queries


@require_safe
def job_detail(request: HttpRequest) -> HttpResponseRedirect:
    """Lead to the page of a job, for a user who is logged in and may see it, and otherwise to the
    list of jobs with its name."""
    owner = request.GET.get("username", "")[:150]
    name = request.GET.get("jobName", request.GET.get("jobname", ""))[:255]
    if name and request.user.is_authenticated:
        seen = queries.visible_to(request.user).filter(owner__username=owner, name=name)
        pk = seen.values_list("pk", flat=True).first()
        if pk is not None:
            return HttpResponseRedirect(f"/jobs/{pk}")
    asked = {key: value for key, value in (("owner", owner), ("q", name)) if value}
    return HttpResponseRedirect(f"/jobs?{urlencode(asked)}" if asked else "/jobs")


@require_safe
def job_list(request: HttpRequest) -> HttpResponseRedirect:
    owner = request.GET.get("username", "")[:150]
    return HttpResponseRedirect(f"/jobs?{urlencode({'owner': owner})}" if owner else "/jobs")
