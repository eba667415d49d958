"""What `ProcessServer` serves: the application, hearing the doorbells of the test."""

from __future__ import annotations

import os

from django.conf import settings

settings.CHANNEL_LAYERS["default"]["CONFIG"]["prefix"] = os.environ["SKEP_TEST_PREFIX"]

from skep_platform.asgi import application  # noqa: E402, F401
