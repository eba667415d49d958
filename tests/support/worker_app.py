"""The Celery application of processes of their own, with the notifications of the test."""

from __future__ import annotations

import os

from django.conf import settings

settings.CHANNEL_LAYERS["default"]["CONFIG"]["prefix"] = os.environ["SKEP_TEST_PREFIX"]

from skep_platform.celery import app  # noqa: E402

__all__ = ["app"]
