"""The control plane: the only room with a database."""

__version__ = "0.1.0"

# Loaded with the package, so that every process that sends a task uses this configuration.
from skep_platform.celery import app as celery_app

__all__ = ["celery_app"]
