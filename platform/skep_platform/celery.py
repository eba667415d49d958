"""The Celery application: queue `scheduler` is consumed one at a time, `default` in parallel."""

from __future__ import annotations

import os

from celery import Celery

from skep_platform.core import metrics

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skep_platform.settings")

app = Celery("skep")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
metrics.measure_tasks()
