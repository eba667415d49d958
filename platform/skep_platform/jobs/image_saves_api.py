"""REST: containers of running tasks that are saved as images."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.accounts.models import Scope
from skep_platform.core.api import Body, validated
from skep_platform.core.paging import page, paged
from skep_platform.jobs import image_saves
from skep_platform.jobs.api import TAGS
from skep_platform.jobs.image_saves import ImageSave, SaveState


class ImageSaveBody(Body):
    reference = serializers.CharField(
        max_length=512, help_text="Name and tag in a registry that your credential may push to."
    )
    rank = serializers.IntegerField(
        min_value=0, max_value=2**31 - 1, default=0, help_text="Of the task, within the job."
    )


class ImageSaveSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    job = serializers.UUIDField(allow_null=True, help_text="Null: it was deleted.")
    job_name = serializers.CharField(allow_blank=True)
    virtual_cluster = serializers.CharField()
    task = serializers.CharField(help_text="Such as worker-0.")
    reference = serializers.CharField()
    state = serializers.ChoiceField(SaveState.choices)
    percent = serializers.IntegerField(help_text="Of the push.")
    code = serializers.CharField(allow_blank=True, help_text="Why it failed, as the next.")
    message = serializers.CharField(allow_blank=True)
    digest = serializers.CharField(allow_blank=True, help_text="What its registry has.")
    size = serializers.IntegerField(
        allow_null=True, help_text="Bytes of what the task changed; null: not known."
    )
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class ImageSavesView(APIView):
    token_scope = Scope.SUBMIT

    @paged("list_image_saves", ImageSaveSerializer, TAGS)
    def get(self, request: Request, id: UUID) -> Response:
        """List the saves of a job's containers as images, the newest first. For its owner and
        admins."""
        rows = image_saves.of_job(current_user.user(request), id)
        return page(request, rows, _show, "created_at", "id", descending=True)

    @extend_schema(
        operation_id="save_image",
        request=ImageSaveBody,
        responses={201: ImageSaveSerializer},
        tags=TAGS,
    )
    def post(self, request: Request, id: UUID) -> Response:
        """Save the container of a running task as an image, without secrets, variables and files
        of the platform. For the job's owner and admins, where its virtual cluster allows it."""
        user, asked = current_user.user(request), validated(ImageSaveBody, request)
        made = image_saves.request(user, id, asked["rank"], asked["reference"])
        return Response(_show([made])[0], status=201)


class ImageSaveView(APIView):
    token_scope = Scope.SUBMIT

    @extend_schema(operation_id="cancel_image_save", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, id: UUID) -> Response:
        """Cancel a save that is under way. What its registry has by then stays there."""
        image_saves.cancel(current_user.user(request), id)
        return Response(status=204)


class SavedImagesView(APIView):
    @paged("list_saved_images", ImageSaveSerializer, ["images"])
    def get(self, request: Request) -> Response:
        """List the images that you saved from containers, the newest first."""
        rows = image_saves.saved_by(current_user.user(request))
        return page(request, rows, _show, "created_at", "id", descending=True)


def _show(rows: list[ImageSave]) -> list[Any]:
    return list(ImageSaveSerializer([image_saves.shown(one) for one in rows], many=True).data)
