"""REST: storages, and the virtual clusters and groups that may use them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.core.api import Body, validated
from skep_platform.core.paging import page, paged
from skep_platform.storage import queries, services
from skep_platform.storage.models import Storage, StorageType

TAGS = ["storages"]
DATA = (
    "nfs: server and path of the export; host_path: path of a folder on every node; s3: endpoint "
    "and bucket, and perhaps region, prefix and path_style (true or false)."
)
KEYS = "Of s3, never shown again; both empty: requests are not signed."
OPTIONS = "Options of nfs(5) that tune a mount, such as vers=4.2 or hard."
PER_USER = "Each user has a folder of its own, and sees no other."
HOME = "The folder of its owner is mounted at /home/USER in each job; needs per_user."
DEFAULT = "Mounted where a job file says `storages: []`."
HIDDEN = "Empty for all but those who may change it."
MANAGED_BY = "The virtual cluster whose VC admins may change it; empty: only admins may."


class DataField(serializers.DictField):
    child = serializers.CharField(max_length=1024)


class OptionsField(serializers.ListField):
    child = serializers.CharField(max_length=64)


class KeyField(serializers.CharField):
    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=512, allow_blank=True, write_only=True, **options)


class StorageGrantSerializer(serializers.Serializer[Any]):
    virtual_cluster = serializers.CharField()
    read_only = serializers.BooleanField()  # type: ignore[assignment]


class StorageGroupGrantSerializer(serializers.Serializer[Any]):
    group = serializers.CharField()
    read_only = serializers.BooleanField()  # type: ignore[assignment]


class StorageSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    type = serializers.ChoiceField(StorageType.values)
    data = DataField(help_text=f"{DATA} {HIDDEN}")  # type: ignore[assignment]
    mount_options = OptionsField(help_text=HIDDEN)
    has_keys = serializers.BooleanField(
        help_text="Of s3: keys are stored. False for all but those who may change it."
    )
    read_only = serializers.BooleanField(help_text="For everyone, whatever a grant says.")  # type: ignore[assignment]
    per_user = serializers.BooleanField(help_text=PER_USER)
    home = serializers.BooleanField(help_text=HOME)
    default = serializers.BooleanField(help_text=DEFAULT)
    managed_by = serializers.CharField(
        allow_blank=True, help_text=f"{MANAGED_BY} You see one that you belong to."
    )
    may_change = serializers.BooleanField(help_text="Whether you may change it.")
    grants = StorageGrantSerializer(
        many=True, help_text="The virtual clusters that may use it, of those that you belong to."
    )
    group_grants = StorageGroupGrantSerializer(
        many=True,
        help_text="The groups whose users may use it in any virtual cluster, of those that you are "
        "in.",
    )
    created_at = serializers.DateTimeField()


class StorageBody(Body):
    name = serializers.CharField(max_length=63)
    type = serializers.ChoiceField(StorageType.values)
    data = DataField(help_text=DATA)  # type: ignore[assignment]
    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    mount_options = OptionsField(max_length=32, required=False, help_text=OPTIONS)
    access_key = KeyField(required=False, help_text=KEYS)
    secret_key = KeyField(required=False, help_text=KEYS)
    read_only = serializers.BooleanField(required=False)  # type: ignore[assignment]
    per_user = serializers.BooleanField(required=False, help_text=PER_USER)
    home = serializers.BooleanField(required=False, help_text=HOME)
    default = serializers.BooleanField(required=False, help_text=DEFAULT)
    managed_by = serializers.CharField(
        max_length=63,
        allow_blank=True,
        required=False,
        help_text="A virtual cluster: the storage, of type s3, is granted to it, and its VC admins"
        " may change it. The name begins with that of the virtual cluster and a hyphen.",
    )


class StorageChange(Body):
    data = DataField(required=False, help_text=DATA)  # type: ignore[assignment]
    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    mount_options = OptionsField(max_length=32, required=False, help_text=OPTIONS)
    access_key = KeyField(required=False, help_text=KEYS)
    secret_key = KeyField(required=False, help_text=KEYS)
    read_only = serializers.BooleanField(required=False)  # type: ignore[assignment]
    per_user = serializers.BooleanField(required=False, help_text=PER_USER)
    home = serializers.BooleanField(required=False, help_text=HOME)
    default = serializers.BooleanField(required=False, help_text=DEFAULT)


class StorageGrantBody(Body):
    read_only = serializers.BooleanField(required=False)  # type: ignore[assignment]


class StoragesView(APIView):
    @paged(
        "list_storages",
        StorageSerializer,
        TAGS,
        OpenApiParameter("default", bool, description="Only those that are mounted by default."),
    )
    def get(self, request: Request) -> Response:
        """List the storages that you may use in one of your virtual clusters or by a group of
        yours; all for an admin."""
        rows = queries.visible_to(request.user)
        if asked := request.query_params.get("default", ""):
            rows = rows.filter(default=asked.lower() in ("1", "true"))
        return page(request, rows, lambda found: _show(request, found), "name")

    @extend_schema(
        operation_id="create_storage",
        request=StorageBody,
        responses={201: StorageSerializer},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Create a storage. No virtual cluster may use it before it is granted to it. For admins;
        with `managed_by` also for the VC admins of that virtual cluster, in the object stores that
        an admin listed."""
        storage = services.create(current_user.user(request), **validated(StorageBody, request))
        return _one(request, storage.name, status=201)


class StorageView(APIView):
    @extend_schema(operation_id="get_storage", responses=StorageSerializer, tags=TAGS)
    def get(self, request: Request, name: str) -> Response:
        return _one(request, name)

    @extend_schema(
        operation_id="update_storage",
        request=StorageChange,
        responses=StorageSerializer,
        tags=TAGS,
    )
    def patch(self, request: Request, name: str) -> Response:
        """Change a storage for what is started from now on. It keeps its name and its type."""
        storage = queries.find(request.user, name)
        changes = validated(StorageChange, request, partial=True)
        services.update(current_user.user(request), storage, **changes)
        return _one(request, name)

    @extend_schema(operation_id="delete_storage", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str) -> Response:
        """Delete a storage and its grants, and nothing that lies in it."""
        storage = queries.find(request.user, name)
        services.delete(current_user.user(request), storage)
        return Response(status=204)


class GrantView(APIView):
    @extend_schema(
        operation_id="grant_storage",
        request=StorageGrantBody,
        responses=StorageSerializer,
        tags=TAGS,
    )
    def put(self, request: Request, name: str, virtual_cluster: str) -> Response:
        """Let the jobs of a virtual cluster use a storage, or change whether they may write."""
        storage = queries.find(request.user, name)
        user, body = current_user.user(request), validated(StorageGrantBody, request)
        services.grant(user, storage, virtual_cluster, **body)
        return _one(request, name)

    @extend_schema(operation_id="revoke_storage", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str, virtual_cluster: str) -> Response:
        """Withdraw a grant. Containers that run keep the storage."""
        storage = queries.find(request.user, name)
        services.revoke(current_user.user(request), storage, virtual_cluster)
        return Response(status=204)


class GroupGrantView(APIView):
    @extend_schema(
        operation_id="grant_storage_to_group",
        request=StorageGrantBody,
        responses=StorageSerializer,
        tags=TAGS,
    )
    def put(self, request: Request, name: str, group: str) -> Response:
        """Let the jobs of the users of a group use a storage in any virtual cluster, or change
        whether they may write."""
        storage = queries.find(request.user, name)
        user, body = current_user.user(request), validated(StorageGrantBody, request)
        services.grant_group(user, storage, group, **body)
        return _one(request, name)

    @extend_schema(operation_id="revoke_storage_from_group", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, name: str, group: str) -> Response:
        """Withdraw the grant to a group. Containers that run keep the storage."""
        storage = queries.find(request.user, name)
        services.revoke_group(current_user.user(request), storage, group)
        return Response(status=204)


def _one(request: Request, name: str, status: int = 200) -> Response:
    storage = queries.find(request.user, name)
    return Response(_show(request, [storage])[0], status=status)


def _show(request: Request, storages: list[Storage]) -> list[Any]:
    rows = [
        {
            "name": storage.name,
            "description": storage.description,
            "type": storage.type,
            "data": storage.data if _may_change(storage) else {},
            "mount_options": storage.mount_options if _may_change(storage) else [],
            "has_keys": _may_change(storage) and storage.sealed is not None,
            "read_only": storage.read_only,
            "per_user": storage.per_user,
            "home": storage.home,
            "default": storage.default,
            "managed_by": _manager(storage),
            "may_change": _may_change(storage),
            "grants": [
                {"virtual_cluster": grant.vc.name, "read_only": grant.read_only}
                for grant in storage.known_grants  # type: ignore[attr-defined]
                if grant.vc is not None
            ],
            "group_grants": [
                {"group": grant.group.name, "read_only": grant.read_only}
                for grant in storage.known_grants  # type: ignore[attr-defined]
                if grant.group is not None
            ],
            "created_at": storage.created_at,
        }
        for storage in storages
    ]
    return list(StorageSerializer(rows, many=True).data)  # type: ignore[call-overload]


def _may_change(storage: Storage) -> bool:
    return bool(storage.may_change)  # type: ignore[attr-defined]


def _manager(storage: Storage) -> str:
    """Return what manages a storage, as far as its reader may know of that virtual cluster."""
    vc = storage.managed_by
    if vc is None:
        return ""
    known = {grant.vc_id for grant in storage.known_grants}  # type: ignore[attr-defined]
    return vc.name if _may_change(storage) or vc.pk in known else ""
