"""What registries say of the images of the catalogue: digest, size, CUDA version and framework.

Asked by a periodic task, and for one image on demand, with the credentials of who added the
entry, else those of the virtual cluster that manages it, else with none.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta

import structlog
from django.db.models import F, Q
from django.utils import timezone

from skep_platform.audit import services as audit
from skep_platform.core.serving import give_connection_back
from skep_platform.images import credentials, registry
from skep_platform.images.models import Image
from skep_platform.images.registry import Login, RegistryError, RemoteImage

EACH_S = 10.0
BUDGET_S = 40.0  # of one run, of which the last image may take EACH_S more; they come each minute
FRESH = timedelta(hours=24)
AT_A_TIME = 50
FRAMEWORKS = {
    "PYTORCH_VERSION": "PyTorch",
    "TENSORFLOW_VERSION": "TensorFlow",
    "TF_VERSION": "TensorFlow",
    "JAX_VERSION": "JAX",
}
log = structlog.get_logger(__name__)


def inspect_due() -> int:
    """Ask for the images that were never asked for, or not for a day, for a bounded time. Returns
    how many."""
    due = Q(inspected_at=None) | Q(inspected_at__lt=timezone.now() - FRESH)
    images = Image.objects.filter(due).order_by(F("inspected_at").asc(nulls_first=True))
    until, asked = time.monotonic() + BUDGET_S, 0
    for image in images[:AT_A_TIME]:
        if asked and time.monotonic() > until:  # the next run would ask for them beside this one
            break
        inspect(image)
        asked += 1
    return asked


def inspect_now(image: Image) -> Image:
    """Ask for one image, for who may change it."""
    before = {"digest": image.digest, "size": image.size}
    inspect(image)
    image.refresh_from_db()
    after = {"digest": image.digest, "size": image.size, "problem": image.problem}
    vc = image.managed_by
    audit.record("image.inspect", "image", image.pk, image.name, vc=vc, before=before, after=after)
    return image


def inspect(image: Image) -> None:
    """Ask the registry of an image, and store what it says unless the reference was changed
    meanwhile. What the entry says of itself is kept; what it leaves out is filled in. No
    transaction is open while the registry is asked."""
    found, problem = None, ""
    try:
        login = _login(image)
        give_connection_back()
        found = registry.inspect(image.reference, login, time.monotonic() + EACH_S)
    except RegistryError as error:
        problem = str(error)[:300]
        log.info("image_not_inspected", image=image.name, kind=error.kind)
    changes = {"inspected_at": timezone.now(), "problem": problem, **_known(image, found)}
    Image.objects.filter(pk=image.pk, reference=image.reference).update(**changes)


def _known(image: Image, found: RemoteImage | None) -> dict[str, object]:
    if found is None:
        return {}
    known: dict[str, object] = {"digest": found.digest, "size": found.size}
    if not image.cuda_version:
        known["cuda_version"] = _plain(found.environment.get("CUDA_VERSION", ""), 20)
    if not image.framework:
        known["framework"] = _framework(found.environment)
    return known


def _framework(environment: Mapping[str, str]) -> str:
    for variable, name in FRAMEWORKS.items():
        if version := _plain(environment.get(variable, ""), 30):
            return f"{name} {version}"
    return ""


def _plain(text: str, most: int) -> str:
    """Return a version as an image says it, if it looks like one."""
    return text if len(text) <= most and text.replace(".", "").replace("+", "").isalnum() else ""


def _login(image: Image) -> Login:
    owners = {image.created_by_id} if image.created_by_id else set()
    vcs = {image.managed_by_id} if image.managed_by_id else set()
    stored = credentials.read(owners, vcs)
    holders = image.created_by_id or 0, image.managed_by_id or image.pk
    return Login(**stored.login(*holders, image.reference))
