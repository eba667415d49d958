"""The log store in S3, or whatever speaks its protocol: an object for each chunk."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Any

from botocore.exceptions import BotoCoreError, ClientError
from django.core.files.base import ContentFile
from storages.backends.s3 import S3Storage

WRITERS = 16  # objects that are written at once by a process
DELETED = 1000  # keys in one request, as many as S3 takes


class ChunkObjects(S3Storage):
    """One request for each chunk that is written or read. One client, which is safe for threads,
    serves all of them: to make one takes longer than a request."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._lock = threading.Lock()
        self._client: Any = None
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="log-objects")

    @property
    def client(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self.connection.meta.client
            return self._client

    def save_many(self, chunks: Sequence[tuple[str, bytes]]) -> None:
        if len(chunks) == 1:
            self._put(*chunks[0])
            return
        list(self._writers.map(lambda chunk: self._put(*chunk), chunks))

    def delete_many(self, keys: Sequence[str]) -> None:
        for first in range(0, len(keys), DELETED):
            names = [{"Key": self._name(key)} for key in keys[first : first + DELETED]]
            with _as_os_error():
                answer = self.client.delete_objects(
                    Bucket=self.bucket_name, Delete={"Objects": names, "Quiet": True}
                )
            if failed := answer.get("Errors"):
                raise OSError(f"{len(failed)} objects were not deleted: {failed[0]['Message']}")

    def _save(self, name: str, content: IO[Any]) -> str:
        self._put(name, content.read())
        return name

    def _open(self, name: str, mode: str = "rb") -> ContentFile[bytes]:
        try:
            with _as_os_error():
                answer = self.client.get_object(Bucket=self.bucket_name, Key=self._name(name))
                return ContentFile(answer["Body"].read(), name)
        except OSError as error:
            if _code(error.__cause__) in ("NoSuchKey", "404"):
                raise FileNotFoundError(name) from error
            raise

    def _put(self, key: str, data: bytes) -> None:
        with _as_os_error():
            self.client.put_object(Bucket=self.bucket_name, Key=self._name(key), Body=data)

    def _name(self, key: str) -> str:
        return str(self._normalize_name(key))


@contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise OSError(str(error)) from error


def _code(error: BaseException | None) -> str:
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else ""
