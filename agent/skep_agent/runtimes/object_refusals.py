"""Why a store of objects did not do what it was asked to, and whether it is of use to ask again.

The codes are those of Amazon's S3, MinIO and Ceph, as botocore hands them on. No message has a key,
an address or what a store answers in words of its own: they reach tenants.
"""

from __future__ import annotations

import errno
import re

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.mounts import unavailable
from skep_agent.protocol import S3Mount

_CODE = re.compile(r"[0-9A-Za-z.]{1,64}")
_KEYS = "an admin should give the storage keys that may read and write there"
_BUCKET = "an admin should make the bucket, or give the storage another one"
_PLACE = "an admin should correct the address and the region of the storage"
_CLOCK = "an admin should correct the clock of the node"
_FULL = "an admin should free or add capacity of the bucket"
_METHOD = "an admin should take a store that speaks S3, with copies in parts"
# What an admin has to do, before the store will do what it refuses.
_LASTING = {
    **dict.fromkeys(("AccessDenied", "AccessForbidden", "Forbidden", "403"), _KEYS),
    **dict.fromkeys(("Unauthorized", "UnauthorizedAccess", "401", "NotSignedUp"), _KEYS),
    **dict.fromkeys(("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidSecurity"), _KEYS),
    **dict.fromkeys(("InvalidToken", "ExpiredToken", "TokenRefreshRequired"), _KEYS),
    **dict.fromkeys(("AllAccessDisabled", "AccountProblem"), _KEYS),
    **dict.fromkeys(("NoSuchBucket", "InvalidBucketName"), _BUCKET),
    **dict.fromkeys(("PermanentRedirect", "MovedPermanently", "301"), _PLACE),
    **dict.fromkeys(("AuthorizationHeaderMalformed", "IllegalLocationConstraintException"), _PLACE),
    **dict.fromkeys(("RequestTimeTooSkewed", "RequestExpired"), _CLOCK),
    **dict.fromkeys(("QuotaExceeded", "XMinioStorageFull", "InsufficientStorage"), _FULL),
    **dict.fromkeys(("XMinioAdminBucketQuotaExceeded", "507"), _FULL),
    **dict.fromkeys(("MethodNotAllowed", "NotImplemented", "405", "501"), _METHOD),
}
# Answers with a status of 4xx that say nothing against another try.
_PASSING = frozenset(
    {
        *("RequestTimeout", "RequestTimeoutException", "PriorRequestNotComplete"),
        *("SlowDown", "SlowDownRead", "SlowDownWrite", "Throttling", "ThrottlingException"),
        *("ThrottledException", "RequestThrottled", "RequestThrottledException"),
        *("TooManyRequests", "TooManyRequestsException", "RequestLimitExceeded"),
        *("BandwidthLimitExceeded", "LimitExceededException", "TransactionInProgressException"),
        *("EC2ThrottledException", "ProvisionedThroughputExceededException"),
        *("OperationAborted", "ConditionalRequestConflict", "PreconditionFailed"),
        *("BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch"),
        *("NoSuchKey", "NoSuchUpload", "InvalidPart", "InvalidPartOrder"),
    }
)
_PASSING_STATUS = frozenset({404, 408, 409, 412, 425, 429})


class StoreRefused(RuntimeFailure):
    """A "storage_unavailable" that does not go away by itself: no key, no bucket, or no space."""


class ObjectRefused(RuntimeFailure):
    """A "storage_unavailable" of one object, which the store will refuse again."""


def failure_of(mount: S3Mount, error: BaseException) -> RuntimeFailure:
    """Return why a copy failed: StoreRefused, ObjectRefused, or what may be tried again."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RuntimeFailure(
            "disk_full", f"The node's disk is too full for storage {mount.storage}."
        )
    answer = getattr(error, "response", None)
    if not isinstance(answer, dict):
        return unavailable(f"Storage {mount.storage}: its store does not answer as it should.")
    code = str(answer.get("Error", {}).get("Code", ""))
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    advice = _LASTING.get(code)
    if advice is None and code not in _PASSING:
        advice = _LASTING.get(str(status))
    code = code if _CODE.fullmatch(code) else "an error"
    if advice is not None:
        message = f"Storage {mount.storage}: its store refuses this ({code}): {advice}."
        return StoreRefused("storage_unavailable", message)
    if 400 <= status < 500 and status not in _PASSING_STATUS and code not in _PASSING:
        message = f"Storage {mount.storage}: its store refuses an object ({code})."
        return ObjectRefused("storage_unavailable", message)
    return unavailable(f"Storage {mount.storage}: its store reports {code}.")


def refused_address(mount: S3Mount) -> StoreRefused:
    message = (
        f"Storage {mount.storage}: its address belongs to the machines themselves: an admin should"
        " give it another one."
    )
    return StoreRefused("storage_unavailable", message)
