"""What stores answer: whether it is of use to ask again, and what an admin has to do."""

from __future__ import annotations

import errno

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from skep_agent.protocol import S3Mount
from skep_agent.runtimes.object_refusals import ObjectRefused, StoreRefused, failure_of

MOUNT = S3Mount(
    storage="team", endpoint="https://s3.example.org", bucket="b", access_key="AKIA", target="/mnt"
)


def answer(code: str, status: int) -> ClientError:
    """As botocore makes it of an answer with the body of an error."""
    error = {"Code": code, "Message": "of AKIA at https://s3.example.org"}
    whole = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(whole, "PutObject")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "status", "advice"),
    [
        ("AccessDenied", 403, "keys"),
        ("InvalidAccessKeyId", 403, "keys"),
        ("SignatureDoesNotMatch", 403, "keys"),
        ("ExpiredToken", 400, "keys"),
        ("OfAStoreThatNoOneKnows", 403, "keys"),
        ("401", 401, "keys"),
        ("NoSuchBucket", 404, "make the bucket"),
        ("PermanentRedirect", 301, "region"),
        ("RequestTimeTooSkewed", 403, "clock"),
        ("XMinioStorageFull", 507, "capacity"),
        ("QuotaExceeded", 403, "capacity"),
    ],
)
def test_a_lasting_refusal_says_which_storage_and_what_to_do(code, status, advice):
    failure = failure_of(MOUNT, answer(code, status))
    assert isinstance(failure, StoreRefused)
    assert failure.code == "storage_unavailable"
    assert failure.message.startswith(f"Storage team: its store refuses this ({code}): an admin")
    assert advice in failure.message
    assert "AKIA" not in failure.message
    assert "example.org" not in failure.message


@pytest.mark.parametrize(
    ("code", "status"),
    [
        *(
            ("SlowDown", 503),
            ("SlowDown", 403),
            ("InternalError", 500),
            ("ServiceUnavailable", 503),
        ),
        *(("RequestTimeout", 400), ("Throttling", 400), ("RequestLimitExceeded", 403)),
        *(("OperationAborted", 409), ("429", 429), ("NoSuchUpload", 404), ("BadDigest", 400)),
    ],
)
def test_what_passes_is_asked_for_again(code, status):
    failure = failure_of(MOUNT, answer(code, status))
    assert not isinstance(failure, StoreRefused | ObjectRefused)
    assert failure.message == f"Storage team: its store reports {code}."


def test_a_store_that_is_away_is_asked_again_and_an_object_that_is_refused_alone_is_not():
    away = failure_of(MOUNT, EndpointConnectionError(endpoint_url="https://s3.example.org"))
    assert not isinstance(away, StoreRefused | ObjectRefused)
    one = failure_of(MOUNT, answer("KeyTooLongError", 400))
    assert isinstance(one, ObjectRefused)
    assert one.message == "Storage team: its store refuses an object (KeyTooLongError)."
    odd = failure_of(MOUNT, answer("<b>of AKIA</b>", 400))
    assert "(an error)" in odd.message
    assert failure_of(MOUNT, OSError(errno.ENOSPC, "full")).code == "disk_full"
