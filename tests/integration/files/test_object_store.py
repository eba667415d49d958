"""Working files in an S3 store, over real HTTP."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.utils import timezone
from tests.support.archives import packed
from tests.support.object_store import ObjectStore, object_store
from tests.support.platform_factories import make_user

from skep_platform.files import queries, services
from skep_platform.files.models import Archive

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def server():
    with object_store() as running:
        yield running


@pytest.fixture
def bucket(server: ObjectStore, settings, monkeypatch):
    return server.bucket_for("files", "storages.backends.s3.S3Storage", settings, monkeypatch)


def test_an_archive_goes_there_once_and_comes_back(bucket):
    data = packed(("train.py", b"print(1)\n" * 10_000))
    for user in (make_user(), make_user()):
        archive = services.upload(user, io.BytesIO(data))
    assert [item.key for item in bucket.objects.all()] == [
        f"skep/files/{queries.path_of(archive.sha256)}"
    ]
    with queries.open_stored(archive.sha256) as file:
        assert file.read() == data


def test_unused_archives_are_deleted_there(bucket, monkeypatch):
    monkeypatch.setattr(services, "ORPHANED", timedelta(days=-1))
    services.upload(make_user(), io.BytesIO(packed(("a", b"1"))))
    Archive.objects.update(used_at=timezone.now() - services.KEPT - timedelta(days=1))
    services.tidy()
    assert not Archive.objects.exists()
    assert list(bucket.objects.all()) == []
    assert not queries.is_stored("0" * 64)


def test_a_store_that_hangs_is_waited_for_less_than_two_minutes(bucket):
    config = queries.storage().connection.meta.client.meta.config
    once = config.connect_timeout + config.read_timeout
    assert once * config.retries["total_max_attempts"] < 120
