"""REST: apps of jobs, such as notebooks, and how a browser gets into one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_limits import is_storage_path
from skep_platform.accounts import current_user
from skep_platform.accounts.models import ApiToken, Scope
from skep_platform.core.api import Body, validated
from skep_platform.core.errors import Forbidden
from skep_platform.core.paging import page, paged
from skep_platform.interactive import queries, services
from skep_platform.interactive.models import App, AppType
from skep_platform.jobs import queries as jobs

TAGS = ["apps"]
IDLE = "Its job is stopped when no one has used it for as long as the virtual cluster allows."


class FolderField(serializers.CharField):
    """A folder in a container, which stands in a command."""

    def to_internal_value(self, data: Any) -> str:
        folder = super().to_internal_value(data)
        if not is_storage_path(folder):
            message = (
                "Write a plain absolute path, such as /mnt/team/runs: letters, digits and any of "
                "_@+=~.-, without '..' and without '/' at the end."
            )
            raise serializers.ValidationError(message)
        return folder


class AppSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    type = serializers.ChoiceField(AppType.values)
    state = serializers.ChoiceField(
        queries.STATES,
        help_text="waiting: its task does not run yet; starting: it does not answer yet.",
    )
    problem = serializers.CharField(help_text="Of a starting app: what was seen last, or empty.")
    url = serializers.CharField(
        allow_null=True, help_text="Where a browser opens it; null: apps are not configured here."
    )
    job_id = serializers.UUIDField()
    job_name = serializers.CharField()
    owner = serializers.CharField()
    virtual_cluster = serializers.CharField()
    gpus = serializers.IntegerField()
    task_role = serializers.CharField()
    attempt_id = serializers.UUIDField(
        allow_null=True, help_text="The running attempt of its task, for a shell or a port."
    )
    port = serializers.IntegerField(allow_null=True)
    shared = serializers.BooleanField(help_text="With its virtual cluster.")
    idle_stop = serializers.BooleanField(help_text=IDLE)
    log_dir = serializers.CharField(help_text="The folder that an attached TensorBoard shows.")
    may_share = serializers.BooleanField()
    may_stop = serializers.BooleanField(help_text="Stop its job.")
    active_at = serializers.DateTimeField(allow_null=True, help_text="When it was used last.")
    warned_at = serializers.DateTimeField(
        allow_null=True, help_text="When a warning said that its job will be stopped."
    )
    created_at = serializers.DateTimeField()


class NewAppBody(Body):
    type = serializers.ChoiceField([t for t in AppType.values if t != AppType.WEB])
    image = serializers.CharField(max_length=512)
    virtual_cluster = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=255, required=False, help_text="Of the job.")
    gpus = serializers.IntegerField(min_value=0, max_value=1024, required=False)
    cpus = serializers.IntegerField(min_value=1, max_value=4096, required=False)
    memory_mb = serializers.IntegerField(min_value=6, max_value=64 * 1024**2, required=False)
    storages = serializers.ListField(
        child=serializers.CharField(max_length=63), max_length=16, required=False
    )
    log_dir = FolderField(max_length=500, required=False, help_text="What TensorBoard shows.")


class AttachBody(Body):
    log_dir = FolderField(max_length=500, help_text="Of a running task: what TensorBoard shows.")
    task_role = serializers.CharField(max_length=255, required=False)


class ShareBody(Body):
    shared = serializers.BooleanField()


class OpenBody(Body):
    state = serializers.RegexField(
        r"^[A-Za-z0-9_-]{20,128}$", help_text="As the app's origin gave it to the browser."
    )


class AddressSerializer(serializers.Serializer[Any]):
    url = serializers.CharField(help_text="Where the browser has to go, within a minute.")


class AppsView(APIView):
    token_scope = Scope.SUBMIT

    @paged(
        "list_apps",
        AppSerializer,
        TAGS,
        OpenApiParameter("mine", bool, description="Only those of the own jobs."),
        OpenApiParameter("ended", bool, description="Those of jobs that ended, too."),
    )
    def get(self, request: Request) -> Response:
        """List the apps that you may open: your own, and those that are shared with you."""
        rows, given = queries.openable_by(request.user), request.query_params
        if given.get("mine", "").lower() in ("1", "true"):
            rows = rows.filter(job__owner_id=current_user.user(request).pk)
        if given.get("ended", "").lower() not in ("1", "true"):
            rows = rows.filter(queries.unfinished())
        return page(request, rows, lambda found: _show(request, found), "id", descending=True)

    @extend_schema(
        operation_id="create_app", request=NewAppBody, responses={201: AppSerializer}, tags=TAGS
    )
    def post(self, request: Request) -> Response:
        """Submit a job whose only work is an app: a notebook, an editor, a shell, TensorBoard."""
        app = services.create(current_user.user(request), **validated(NewAppBody, request))
        return _one(request, app, status=201)


class AppView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(operation_id="get_app", responses=AppSerializer, tags=TAGS)
    def get(self, request: Request, id: UUID) -> Response:
        return _one(request, queries.find(request.user, id))

    @extend_schema(operation_id="share_app", request=ShareBody, responses=AppSerializer, tags=TAGS)
    def patch(self, request: Request, id: UUID) -> Response:
        """Share an app with all who may submit to its virtual cluster, or end that. They act in it
        with the rights of the job."""
        app = queries.find(request.user, id)
        shared = validated(ShareBody, request)["shared"]
        return _one(request, services.share(current_user.user(request), app, shared))


class OpenView(APIView):
    @extend_schema(
        operation_id="open_app", request=OpenBody, responses=AddressSerializer, tags=TAGS
    )
    def post(self, request: Request, id: UUID) -> Response:
        """Let the browser of this session into an app. Only the platform's page asks for it, with
        the `state` that the app's origin gave to the browser."""
        user = current_user.user(request)
        app = queries.find(user, id)
        if isinstance(request.auth, ApiToken):
            message = "Open the app in a browser that is logged in; tokens reach its port instead."
            raise Forbidden(message, code="browser_needed")
        key = str(request._request.session.session_key)
        state = validated(OpenBody, request)["state"]
        return Response({"url": services.open_app(user, key, app, state)})


class JobAppsView(APIView):
    token_scope = Scope.SUBMIT

    @paged("list_job_apps", AppSerializer, TAGS)
    def get(self, request: Request, id: UUID) -> Response:
        """List the apps of a job that you may open."""
        job = jobs.find(request.user, id)
        rows = queries.openable_by(request.user).filter(job=job)
        return page(request, rows, lambda found: _show(request, found), "id")

    @extend_schema(
        operation_id="attach_tensorboard",
        request=AttachBody,
        responses={201: AppSerializer},
        tags=TAGS,
    )
    def post(self, request: Request, id: UUID) -> Response:
        """Start TensorBoard in the first task of a role of a running job, for a folder in it."""
        body = validated(AttachBody, request)
        user, role = current_user.user(request), body.get("task_role", "")
        app = services.attach_tensorboard(user, id, body["log_dir"], role)
        return _one(request, app, status=201)


def _one(request: Request, app: App, status: int = 200) -> Response:
    return Response(_show(request, [app])[0], status=status)


def _show(request: Request, apps: list[App]) -> list[Any]:
    user = request.user
    attempts = queries.attempts_of(apps)
    managed = set(queries.tenancy.managed_by(user)) if apps else set()
    admin = queries.tenancy.is_admin(user)
    rows = []
    for app in apps:
        job, attempt = app.job, attempts.get(app.pk)
        own = admin or job.owner_id == user.pk
        state = queries.state_of(app, attempt)
        rows.append(
            {
                **{name: getattr(app, name) for name in _SAME},
                "state": state,
                "problem": app.problem if state == queries.STARTING else "",
                "url": services.app_url(app) if settings.SKEP_APPS_URL and app.port else None,
                "job_name": job.name,
                "owner": job.owner.get_username(),
                "virtual_cluster": job.vc.name,
                "gpus": job.gpus,
                "task_role": app.role,
                "attempt_id": attempt.pk if attempt else None,
                "may_share": own,
                "may_stop": own or job.vc_id in managed,
            }
        )
    return list(AppSerializer(rows, many=True).data)


_SAME = (
    *("id", "name", "type", "job_id", "port", "shared", "idle_stop", "log_dir"),
    *("active_at", "warned_at", "created_at"),
)
