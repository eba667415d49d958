"""REST: files of storages."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping
from typing import IO, Any, cast

from asgiref.sync import sync_to_async
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.accounts.models import Scope
from skep_platform.audit import services as audit
from skep_platform.core.api import parameters
from skep_platform.core.errors import SkepError
from skep_platform.core.throttling import Scans, Searches
from skep_platform.files.api import Unread
from skep_platform.storage import files, queries

TAGS = ["storages"]
MAX_RANGE = 8 * 1024 * 1024  # bytes of a file in one answer to a request for a range
RANGE = re.compile(r"bytes=(\d{1,18})-(\d{1,18})?")
BYTES = "application/octet-stream"
PATH = "Folders and names, as in results/model.pt; empty for the storage itself."


class StorageFileSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    type = serializers.ChoiceField(files.TYPES, help_text="Links are shown and never followed.")
    size = serializers.IntegerField(help_text="Bytes of a file.")
    modified_at = serializers.DateTimeField()


class StorageFilesSerializer(serializers.Serializer[Any]):
    writable = serializers.BooleanField(help_text="Whether you may upload and remove.")
    results = StorageFileSerializer(many=True)
    next = serializers.CharField(allow_null=True, help_text="Value of `after` for more, or null.")


class StorageUsageSerializer(serializers.Serializer[Any]):
    size = serializers.IntegerField(help_text="Bytes of all files.")
    files = serializers.IntegerField()
    folders = serializers.IntegerField()
    complete = serializers.BooleanField(help_text="False: there is more than could be counted.")
    modified_at = serializers.DateTimeField(allow_null=True, help_text="Of a file.")
    etag = serializers.CharField(
        allow_null=True, help_text="Of a file: another one after each change of it."
    )


class StorageUploadSerializer(serializers.Serializer[Any]):
    offset = serializers.IntegerField(help_text="Bytes that have arrived.")
    source = serializers.CharField(  # type: ignore[assignment]
        allow_blank=True, help_text="As in the request: the bytes that have arrived are of it."
    )


class StorageRemovalSerializer(serializers.Serializer[Any]):
    complete = serializers.BooleanField(help_text="False: repeat the request to remove the rest.")


class PathQuery(serializers.Serializer[Any]):
    path = serializers.CharField(
        required=False, default="", allow_blank=True, trim_whitespace=False, help_text=PATH
    )


class ListQuery(PathQuery):
    after = serializers.CharField(
        required=False,
        default="",
        trim_whitespace=False,
        help_text="List what comes after this name.",
    )
    limit = serializers.IntegerField(required=False, default=200, min_value=1, max_value=1000)
    search = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=255,
        help_text="List only what has this in its name; upper and lower case are alike.",
    )


class RemoveQuery(PathQuery):
    recursive = serializers.BooleanField(
        required=False, default=False, help_text="Also a folder that is not empty."
    )


class SourceQuery(PathQuery):
    source = serializers.RegexField(  # type: ignore[assignment]
        rf"^[A-Za-z0-9_-]{{1,{files.MAX_SOURCE}}}\Z",
        required=False,
        default="",
        help_text="Your name for the version of the file that you send, such as a hash of its size "
        "and time; an upload goes on only with the same one.",
    )


class UploadQuery(SourceQuery):
    offset = serializers.IntegerField(required=False, default=0, min_value=0, max_value=2**60)
    last = serializers.BooleanField(
        required=False, default=False, help_text="The file is complete with this piece."
    )


class StorageFilesView(APIView):
    token_scope = Scope.SUBMIT
    throttle_classes = (Searches,)

    @extend_schema(
        operation_id="list_storage_files",
        parameters=[ListQuery],
        responses=StorageFilesSerializer,
        tags=TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        """List a folder of a storage by name."""
        user, query = current_user.user(request), parameters(ListQuery, request)
        storage, writable = queries.usable(user, name)
        entries, following = files.list_folder(
            user, storage, query["path"], query["after"], query["limit"], query["search"]
        )
        body = {"writable": writable, "results": entries, "next": following}
        return Response(StorageFilesSerializer(body).data)

    @extend_schema(
        operation_id="remove_storage_file",
        parameters=[RemoveQuery],
        responses={200: StorageRemovalSerializer},
        tags=TAGS,
    )
    def delete(self, request: Request, name: str) -> Response:
        """Remove a file, a link or a folder of a storage."""
        user, query = current_user.user(request), parameters(RemoveQuery, request)
        storage = queries.writable(user, name)
        recursive = query["recursive"]
        complete = files.remove(user, storage, query["path"], recursive=recursive)
        audit.record(
            "storage.file.remove", "storage", storage.pk, storage.name, path=query["path"][:1024]
        )
        return Response(StorageRemovalSerializer({"complete": complete}).data)


class StorageContentView(APIView):
    token_scope = Scope.SUBMIT
    parser_classes = (Unread,)

    @extend_schema(
        operation_id="download_storage_file",
        parameters=[
            PathQuery,
            OpenApiParameter(
                "Range",
                str,
                OpenApiParameter.HEADER,
                description="bytes=FIRST-LAST: at most 8 MiB of it are answered; bytes=FIRST-: "
                "all to the end.",
            ),
            OpenApiParameter(
                "If-Match",
                str,
                OpenApiParameter.HEADER,
                description="The `ETag` of the file that you began to read: 412 `file_changed` if "
                "it was written to since.",
            ),
            OpenApiParameter(
                "If-Range",
                str,
                OpenApiParameter.HEADER,
                description="The same, but the whole file is answered if it was written to.",
            ),
        ],
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
        tags=TAGS,
    )
    def get(self, request: Request, name: str) -> HttpResponseBase:
        """Download a file of a storage, or a part of it."""
        user, query = current_user.user(request), parameters(PathQuery, request)
        storage, _ = queries.usable(user, name)
        file = files.open_file(user, storage, query["path"])
        response = _content(file, request.headers)
        saved_as = query["path"].rpartition("/")[2]
        response["Accept-Ranges"] = "bytes"
        response["Content-Disposition"] = content_disposition_header(True, saved_as) or "attachment"
        return response

    @extend_schema(
        operation_id="upload_storage_file",
        parameters=[UploadQuery],
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses=StorageUploadSerializer,
        tags=TAGS,
    )
    def put(self, request: Request, name: str) -> Response:
        """Upload a piece of a file, at most 2 MiB. The file appears under its name with the last
        one; an upload that was cut goes on from where `GET upload` says."""
        user, query = current_user.user(request), parameters(UploadQuery, request)
        storage = queries.writable(user, name)
        stream = cast(IO[bytes], request._request)
        size = files.write(
            user,
            storage,
            query["path"],
            stream,
            query["offset"],
            last=query["last"],
            source=query["source"],
        )
        if query["last"]:
            facts = {"path": query["path"][:1024], "size": size}
            audit.record("storage.file.upload", "storage", storage.pk, storage.name, **facts)
        answer = {"offset": size, "source": query["source"]}
        return Response(StorageUploadSerializer(answer).data)


class StorageUploadView(APIView):
    @extend_schema(
        operation_id="get_storage_upload",
        parameters=[SourceQuery],
        responses=StorageUploadSerializer,
        tags=TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        """Return how much of a file that is being uploaded has arrived."""
        user, query = current_user.user(request), parameters(SourceQuery, request)
        storage, _ = queries.usable(user, name)
        offset = files.uploaded(user, storage, query["path"], query["source"])
        answer = {"offset": offset, "source": query["source"]}
        return Response(StorageUploadSerializer(answer).data)


class StorageUsageView(APIView):
    @extend_schema(
        operation_id="get_storage_usage",
        parameters=[PathQuery],
        responses=StorageUsageSerializer,
        tags=TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        """Count the files below a folder of a storage, or describe a file."""
        user, query = current_user.user(request), parameters(PathQuery, request)
        storage, _ = queries.usable(user, name)
        found = files.of_file(user, storage, query["path"])
        if found is None:
            Scans().allow_request(request, self)
            found = files.count_folder(user, storage, query["path"])
        return Response(StorageUsageSerializer(found).data)


def _content(file: IO[bytes], headers: Mapping[str, str]) -> HttpResponseBase:
    found = os.fstat(file.fileno())
    etag, asked = files.version(found), headers.get("Range", "")
    if headers.get("If-Range", etag) != etag:
        asked = ""
    response: HttpResponseBase
    try:
        _check_version(found, headers)
        first, end = _range(asked, found.st_size) if asked else (0, found.st_size)
        file.seek(first)
        if asked and end - first <= MAX_RANGE:
            data = file.read(max(end - first, 0))
            _check_version(os.fstat(file.fileno()), headers)  # it may be written to meanwhile
            file.close()
            end = first + len(data)
            response = HttpResponse(data, status=206, content_type=BYTES)
        else:
            pieces = _pieces(file, end - first, found)
            response = StreamingHttpResponse(
                pieces, status=206 if asked else 200, content_type=BYTES
            )
            response._resource_closers.append(file.close)  # type: ignore[attr-defined]  # also when no byte of it is read
            response["Content-Length"] = str(end - first)
    except BaseException:
        file.close()
        raise
    if asked:
        response["Content-Range"] = (
            f"bytes {first}-{end - 1}/{found.st_size}" if end > first else "bytes */0"
        )
    response["ETag"] = etag
    return response


def _range(asked: str, size: int) -> tuple[int, int]:
    """Return the number of the first byte that is answered, and that behind the last one. Raises
    RangeRefused."""
    found = RANGE.fullmatch(asked)
    first = int(found[1]) if found else size
    if found is None or (first >= size and size) or (found[2] and int(found[2]) < first):
        raise RangeRefused("The file has no such bytes.", size=size)
    return first, min(size, first + MAX_RANGE, int(found[2]) + 1) if found[2] else size


def _check_version(found: os.stat_result, headers: Mapping[str, str]) -> None:
    etag, wanted = files.version(found), headers.get("If-Match", "*")
    if wanted != "*" and etag not in [one.strip() for one in wanted.split(",")]:
        message = "The file was written to since you began to read it: begin again."
        raise FileChanged(message, size=found.st_size, etag=etag)


class FileChanged(SkepError):
    """The file is not the version any more that the request is about."""

    status = 412
    code = "file_changed"


class RangeRefused(SkepError):
    """The range of bytes that is asked for is none of the file."""

    status = 416
    code = "range_invalid"


async def _pieces(file: IO[bytes], size: int, found: os.stat_result) -> AsyncIterator[bytes]:
    """Yield the bytes of a file that may grow meanwhile. Raises EOFError, which breaks the transfer
    off, for one that is written anew: it would end as a mixture."""

    def read(most: int) -> bytes:
        data, now = file.read(most), os.fstat(file.fileno())
        if now.st_size <= found.st_size and now.st_mtime_ns != found.st_mtime_ns:
            raise EOFError("the file was written to while it was read")
        return data

    while size > 0:
        data = await sync_to_async(read)(min(files.PIECE, size))
        if not data:
            raise EOFError("the file became shorter while it was read")
        size -= len(data)
        yield data
