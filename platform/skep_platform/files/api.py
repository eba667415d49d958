"""REST: working files by their hash."""

from __future__ import annotations

from typing import IO, Any, cast

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts.models import Scope, User
from skep_platform.files import queries, services
from skep_platform.files.models import Archive

TAGS = ["files"]
GZIP = ("application/gzip", "application/x-gzip")


class Unread(BaseParser):
    """Leaves the body to the view. The check of a session against forged requests asks for the
    parsed body first, and so refuses one that no parser takes."""

    media_type = "*/*"

    def parse(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {}


class ArchiveSerializer(serializers.ModelSerializer[Archive]):
    class Meta:
        model = Archive
        fields = ("sha256", "size", "unpacked_size", "files")
        extra_kwargs = {
            "sha256": {"help_text": "Of the archive as it came: what a job file names."},
            "size": {"help_text": "Bytes."},
            "unpacked_size": {"help_text": "Bytes."},
            "files": {"help_text": "Members, directories too."},
        }


class ArchivesView(APIView):
    job_tokens = True
    token_scope = Scope.SUBMIT
    parser_classes = (Unread,)

    @extend_schema(
        operation_id="upload_files",
        request={"application/gzip": OpenApiTypes.BINARY},
        responses={201: ArchiveSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Upload a gzipped tar file of a working directory, at most 256 MiB, and unpacked 2 GiB in
        50,000 members. Names and links stay inside; devices are refused."""
        if (request.content_type or "").partition(";")[0].strip() not in GZIP:
            raise UnsupportedMediaType(request.content_type)
        # The stream itself: `request.data` is empty where no length was sent.
        stream = cast(IO[bytes], request._request)
        archive = services.upload(cast(User, request.user), stream)
        return Response(ArchiveSerializer(archive).data, status=201)


class ArchiveView(APIView):
    job_tokens = True

    @extend_schema(operation_id="get_files", responses=ArchiveSerializer, tags=TAGS)
    def get(self, request: Request, sha256: str) -> Response:
        """Get an archive that you have uploaded already."""
        return Response(ArchiveSerializer(queries.find(request.user, sha256)).data)
