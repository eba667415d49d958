"""A real S3 server on loopback, and storages of Django's that lie in it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from skep_platform import env_settings

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
}


class ObjectStore:
    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def new_bucket(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """A new bucket, reached past any proxy."""
        for variable, value in (CREDENTIALS | {"NO_PROXY": "127.0.0.1"}).items():
            monkeypatch.setenv(variable, value)
        bucket = boto3.resource("s3", endpoint_url=self.endpoint).Bucket(
            f"test-{uuid.uuid4().hex[:12]}"
        )
        bucket.create()
        return bucket

    def bucket_for(
        self, storage: str, backend: str, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> Any:
        """A new bucket in which this storage lies until the test's end."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        environment = CREDENTIALS | {
            "SKEP_S3_ENDPOINT_URL": self.endpoint,
            "NO_PROXY": "127.0.0.1",
        }
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        bucket = boto3.resource("s3", endpoint_url=self.endpoint).Bucket(name)
        bucket.create()
        options = env_settings.object_store(f"s3://{name}/skep", storage)
        settings.STORAGES = settings.STORAGES | {storage: {"BACKEND": backend, "OPTIONS": options}}
        return bucket


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield ObjectStore(f"http://{host}:{port}")
    finally:
        server.stop()
