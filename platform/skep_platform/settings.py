"""Django settings, all from the environment. Refuses to start half-configured: no default secrets.

SKEP_SECRET_KEY      signing key, at least 32 random characters (required)
SKEP_DATABASE_URL    postgresql://user:password@host:port/name, or with a unix socket
                     postgresql://user:password@/name?host=/folder (required)
SKEP_REDIS_URL       redis://:password@host:port, or unix://:password@/path?db=0 (required)
SKEP_DATA_DIR        where log chunks lie when no object store is set (required)
SKEP_PUBLIC_URL      the address people type, for example https://skep.example.org
SKEP_ALLOW_HTTP      1: SKEP_PUBLIC_URL may be http:// beyond the loopback, for a try-out
SKEP_GATEWAY_URL     where agents reach the gateway (default: where they joined, for a proxy that
                     routes by path); ":8471" is a port of the host that they joined
SKEP_GATEWAY_BACKEND where the web server reaches the gateway, for agents that know nothing but the
                     web address (default http://127.0.0.1:8471)
SKEP_ALLOWED_HOSTS   comma list; default: the host of SKEP_PUBLIC_URL and loopback
SKEP_TRUSTED_PROXIES the number of proxies in front that set X-Forwarded-For and
                     X-Forwarded-Proto; without one nobody is believed (default 0)
SKEP_LOG_LEVEL       default INFO
SKEP_SECRETS_KEYS    comma list of keys that seal what jobs keep secret (Fernet keys: 32 bytes,
                     URL-safe base64); the first one seals, all of them open. Default: made from
                     SKEP_SECRET_KEY
SKEP_LOG_STORE       s3://bucket/prefix: log chunks and working files lie there (default: in
                     SKEP_DATA_DIR); credentials and region as for any program of AWS
SKEP_S3_ENDPOINT_URL the address of a store that speaks S3 and is not Amazon's
SKEP_LOG_RETENTION_DAYS  how long the logs of a finished job are kept (default 30, 0: for ever)
SKEP_REGISTRIES      comma list of registries that images may come from: names, *.names, address
                     ranges, and "public" for all at public addresses (default public); give the
                     agents the same
SKEP_SCRATCH_RETENTION_S  how long nodes keep the scratch of a finished job (default 3600)
SKEP_CORDON_FAULTS   a node is cordoned when so many jobs failed on it within 24 h by its fault
                     (default 3, 0: never)
SKEP_VERSION_FLOORS  what becomes of nodes whose runc, NVIDIA toolkit or driver is older than the
                     fix of a known break-out: warn (default), or refuse: nothing is placed there
SKEP_GANG_POOL       IPv4 network out of which gangs over several nodes get their subnets, used by
                     nothing else that nodes reach (default 100.64.0.0/10)
SKEP_EGRESS_ALLOW    comma list of private addresses, networks or address:port that tasks may reach
SKEP_TOKEN_DAYS      how long an API token lives when nothing else is asked for (default 90)
SKEP_TOKEN_MAX_DAYS  how long it may live at most (default 366)
SKEP_FORMER_MEMBERS_JOBS   what becomes of running jobs of people who were deactivated or left their
                     virtual cluster: stop (default), or finish; waiting ones always stop
SKEP_LEASE_S, SKEP_HEARTBEAT_S, SKEP_SAMPLE_S   timing of the agents, in seconds
SKEP_PLANNED_ABSENCE_S  how long jobs go on without a server that was stopped on purpose, in
                     seconds (default 3600, at most 86400, 0: no longer than a lease)
"""

from __future__ import annotations

import os
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from skep_agent.network.rules import PRIVATE, Egress
from skep_agent.protocol import NetworkPolicy
from skep_platform import __version__, engine_urls, start_checks

BASE_DIR = Path(__file__).resolve().parent


def _required(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise ImproperlyConfigured(f"set {name}; see the docstring of skep_platform.settings")
    return value


def _refuse(problem: str) -> None:
    if problem:
        raise ImproperlyConfigured(problem)


def _database(url: str) -> dict[str, object]:
    return {
        "ENGINE": "django.db.backends.postgresql",
        **engine_urls.database(url),
        "CONN_HEALTH_CHECKS": True,  # a database that was restarted fails no request of ours
        "OPTIONS": {
            # The same few statements come thousands of times: parsed and planned once a connection.
            "server_side_binding": True,
            "prepare_threshold": 5,
            "pool": {
                "min_size": 1,
                "max_size": int(os.environ.get("SKEP_DATABASE_POOL", "16")),
                "timeout": 10,
            },
        },
    }


def _gang_pool(text: str) -> str:
    try:
        pool = IPv4Network(text)
    except ValueError:
        pool = None
    if pool is None or not 8 <= pool.prefixlen <= 24 or not any(map(pool.subnet_of, PRIVATE)):
        problem = "SKEP_GANG_POOL is to be a private IPv4 network from /8 to /24, not "
        raise ImproperlyConfigured(f"{problem}{text[:80]!r}")
    return text


def _egress(text: str) -> list[str]:
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    try:
        Egress.of(NetworkPolicy(allowed=entries), (), ())
    except ValueError as error:
        raise ImproperlyConfigured(f"SKEP_EGRESS_ALLOW: {error}") from None
    return entries


def _objects(url: str, folder: str) -> dict[str, object]:
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc:
        raise ImproperlyConfigured("SKEP_LOG_STORE is to be s3://bucket or s3://bucket/prefix")
    return {
        "bucket_name": parts.netloc,
        "location": f"{parts.path.strip('/')}/{folder}".lstrip("/"),
        "endpoint_url": os.environ.get("SKEP_S3_ENDPOINT_URL") or None,
        "file_overwrite": True,
        "querystring_auth": False,
        "max_memory_size": 8 * 1024 * 1024,  # of a larger file the rest goes to disk
    }


SECRET_KEY = _required("SKEP_SECRET_KEY")
_refuse(start_checks.secret_key_problem(SECRET_KEY))
DATABASES = {"default": _database(_required("SKEP_DATABASE_URL"))}
SKEP_REDIS_URL = _required("SKEP_REDIS_URL")
SKEP_DATA_DIR = Path(_required("SKEP_DATA_DIR"))
SKEP_PUBLIC_URL = os.environ.get("SKEP_PUBLIC_URL", "http://127.0.0.1:8470")
_allow_http = os.environ.get(start_checks.ALLOW_HTTP, "") == "1"
_refuse(start_checks.public_url_problem(SKEP_PUBLIC_URL, _allow_http))
SKEP_GATEWAY_URL = os.environ.get("SKEP_GATEWAY_URL", "")
SKEP_GATEWAY_BACKEND = os.environ.get("SKEP_GATEWAY_BACKEND", "http://127.0.0.1:8471")

# A node that lost the server stops its containers `LEASE_S` after its last acknowledged heartbeat;
# the server waits `LEASE_MARGIN_S` longer before it gives the GPUs away.
SKEP_LEASE_S = float(os.environ.get("SKEP_LEASE_S", "30"))
SKEP_LEASE_MARGIN_S = float(os.environ.get("SKEP_LEASE_MARGIN_S", "5"))
_refuse(start_checks.lease_margin_problem(SKEP_LEASE_MARGIN_S))
SKEP_HEARTBEAT_S = float(os.environ.get("SKEP_HEARTBEAT_S", "5"))
# So long nodes are waited for after a planned stop of the server; at most a day.
SKEP_PLANNED_ABSENCE_S = min(float(os.environ.get("SKEP_PLANNED_ABSENCE_S", "3600")), 86400.0)
SKEP_REGISTRIES = os.environ.get("SKEP_REGISTRIES", "")
SKEP_CORDON_FAULTS = int(os.environ.get("SKEP_CORDON_FAULTS", "3"))
SKEP_VERSION_FLOORS = os.environ.get("SKEP_VERSION_FLOORS", "warn")
_refuse(
    "" if SKEP_VERSION_FLOORS in ("warn", "refuse") else "SKEP_VERSION_FLOORS is warn or refuse."
)
SKEP_GANG_POOL = _gang_pool(os.environ.get("SKEP_GANG_POOL", "100.64.0.0/10"))
SKEP_EGRESS_ALLOW = _egress(os.environ.get("SKEP_EGRESS_ALLOW", ""))
SKEP_TOKEN_DAYS = float(os.environ.get("SKEP_TOKEN_DAYS", "90"))
SKEP_TOKEN_MAX_DAYS = float(os.environ.get("SKEP_TOKEN_MAX_DAYS", "366"))
SKEP_FORMER_MEMBERS_JOBS = os.environ.get("SKEP_FORMER_MEMBERS_JOBS", "stop")
PASSWORD_RESET_TIMEOUT = 86_400
SKEP_SAMPLE_S = float(os.environ.get("SKEP_SAMPLE_S", "5"))
SKEP_TICK_S = 2.0
# Limits of the queue, in seconds; see skep_scheduler.queue.Settings.
SKEP_SCHEDULING: dict[str, Any] = {
    "ageing_s": float(os.environ.get("SKEP_SCHEDULING_AGEING_S", "600")),
    "starvation_s": float(os.environ.get("SKEP_SCHEDULING_STARVATION_S", "7200")),
    "min_run_s": float(os.environ.get("SKEP_SCHEDULING_MIN_RUN_S", "60")),
    "opportunistic_min_run_s": float(
        os.environ.get("SKEP_SCHEDULING_OPPORTUNISTIC_MIN_RUN_S", "10")
    ),
    "cooldown_s": float(os.environ.get("SKEP_SCHEDULING_COOLDOWN_S", "30")),
    "cooldown_limit_s": float(os.environ.get("SKEP_SCHEDULING_COOLDOWN_LIMIT_S", "1800")),
}
SKEP_MAX_SPEC_BYTES = 512 * 1024
SKEP_SECRETS_KEYS = [k for k in os.environ.get("SKEP_SECRETS_KEYS", "").split(",") if k]
SKEP_SCRATCH_RETENTION_S = float(os.environ.get("SKEP_SCRATCH_RETENTION_S", "3600"))
SKEP_LOG_RETENTION_DAYS = float(os.environ.get("SKEP_LOG_RETENTION_DAYS", "30"))

SKEP_TRUSTED_PROXIES = int(os.environ.get("SKEP_TRUSTED_PROXIES", "0"))

DEBUG = os.environ.get("SKEP_DEBUG", "") == "1"
_public = urlsplit(SKEP_PUBLIC_URL)
# Loopback is always allowed: probes come from there.
ALLOWED_HOSTS = [h for h in os.environ.get("SKEP_ALLOWED_HOSTS", "").split(",") if h]
ALLOWED_HOSTS += [_public.hostname or "127.0.0.1", "127.0.0.1", "localhost", "[::1]"]
CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"]
# Anybody can send the header; only a proxy of ours replaces it.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SKEP_TRUSTED_PROXIES > 0 else None
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _public.scheme == "https"
SESSION_COOKIE_NAME = "skep_session"
CSRF_COOKIE_NAME = "skep_csrf"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "skep_platform.core.failures.csrf_failure"
APPEND_SLASH = False
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "knox",
    "skep_platform.core",
    "skep_platform.accounts",
    "skep_platform.tenancy",
    "skep_platform.cluster",
    "skep_platform.images",
    "skep_platform.files",
    "skep_platform.jobs",
    "skep_platform.telemetry",
    "skep_platform.scheduling",
    "skep_platform.cells",
    "skep_platform.gateway",
    "skep_platform.web",
]

MIDDLEWARE = [
    "skep_platform.core.middleware.Probes",
    "skep_platform.core.middleware.RequestLog",
    "skep_platform.core.middleware.Compress",
    "skep_platform.web.policy.ContentPolicy",
    "django.middleware.security.SecurityMiddleware",
    "skep_platform.web.static_files.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
    }
]

ROOT_URLCONF = "skep_platform.urls"
ASGI_APPLICATION = "skep_platform.asgi.application"
AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
STATIC_URL = "/static/"
# Served from the packages they came in: no collectstatic step. Names of built assets carry a hash.
WHITENOISE_USE_FINDERS = True
WHITENOISE_IMMUTABLE_FILE_TEST = r"^/static/webui/assets/"
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024

STORAGES: dict[str, Any] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "logs": {
        "BACKEND": "skep_platform.telemetry.files.ChunkFiles",
        "OPTIONS": {"location": str(SKEP_DATA_DIR / "logs")},
    },
    "files": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(SKEP_DATA_DIR / "files")},
    },
}
if _log_store := os.environ.get("SKEP_LOG_STORE", ""):
    STORAGES["logs"] = {
        "BACKEND": "skep_platform.telemetry.objects.ChunkObjects",
        "OPTIONS": _objects(_log_store, "logs"),
    }
    STORAGES["files"] = {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": _objects(_log_store, "files"),
    }

CHANNEL_LAYERS: dict[str, Any] = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [SKEP_REDIS_URL], "prefix": "skep"},
    }
}

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": SKEP_REDIS_URL,
        "OPTIONS": {"serializer": "skep_platform.core.cache.JsonSerializer"},
    }
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "skep_platform.accounts.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["skep_platform.core.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "skep_platform.core.schema.Schema",
    "EXCEPTION_HANDLER": "skep_platform.core.api.exception_handler",
    "DEFAULT_PAGINATION_CLASS": "skep_platform.core.api.CursorPages",
    "URL_FORMAT_OVERRIDE": None,  # `format` is a parameter of our own
    "NUM_PROXIES": SKEP_TRUSTED_PROXIES,
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Skep",
    "DESCRIPTION": "One GPU cluster, many hives: the REST API of Skep.",
    "VERSION": __version__,
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "ENUM_NAME_OVERRIDES": {
        "JobState": "skep_platform.jobs.states.JobState.choices",
        "AttemptState": "skep_platform.jobs.states.AttemptState.choices",
        "Visibility": "skep_platform.tenancy.models.Visibility.values",
        "NodeState": "skep_platform.cluster.models.NodeState.values",
        "CellState": "skep_platform.cells.serializers.STATES",
    },
    "ENUM_ADD_EXPLICIT_BLANK_NULL_CHOICE": False,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
}

# Knox's migrations would create the table of the token model that ours replaces, and the table's
# foreign key keeps a test database from being emptied.
MIGRATION_MODULES = {"knox": None}
KNOX_TOKEN_MODEL = "accounts.ApiToken"  # noqa: S105 a model, not a token
REST_KNOX = {"TOKEN_TTL": None, "AUTH_HEADER_PREFIX": "Bearer", "TOKEN_PREFIX": "skt_"}

CELERY_BROKER_URL = engine_urls.broker(SKEP_REDIS_URL)
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
    "visibility_timeout": 60,
    "global_keyprefix": "skep:",
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = False  # beat repeats every task; a poison task must not loop
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TIMEZONE = "UTC"
# Names and periods in seconds; `expires` keeps a stopped worker from waking to a pile of ticks.
CELERY_BEAT_SCHEDULE = {
    "tick": {
        "task": "skep.scheduling.tick",
        "schedule": SKEP_TICK_S,
        "options": {"queue": "scheduler", "expires": 4},
    },
    "verify-world": {
        "task": "skep.scheduling.verify",
        "schedule": 300.0,
        "options": {"queue": "scheduler", "expires": 60},
    },
    "sample-use": {
        "task": "skep.scheduling.sample_use",
        "schedule": 60.0,
        "options": {"queue": "scheduler", "expires": 30},
    },
    "tidy-scheduling": {
        "task": "skep.scheduling.tidy",
        "schedule": 3600.0,
        "options": {"expires": 600},
    },
    "stop-jobs-of-former-members": {
        "task": "skep.jobs.stop_of_former_members",
        "schedule": 30.0,
        "options": {"expires": 20},
    },
    "reconcile-jobs": {
        "task": "skep.jobs.reconcile",
        "schedule": 2.0,
        "options": {"expires": 4},
    },
    "reconcile-nodes": {
        "task": "skep.cluster.reconcile",
        "schedule": 2.0,
        "options": {"expires": 4},
    },
    "drain-nodes": {
        "task": "skep.cells.drain",
        "schedule": 2.0,
        "options": {"expires": 4},
    },
    "diagnose-jobs": {
        "task": "skep.telemetry.diagnose",
        "schedule": 2.0,
        "options": {"expires": 4},
    },
    "count-use": {
        "task": "skep.telemetry.count_use",
        "schedule": 5.0,
        "options": {"expires": 10},
    },
    "delete-old-logs": {
        "task": "skep.telemetry.delete_old_logs",
        "schedule": 60.0,
        "options": {"expires": 30},
    },
    "tidy-files": {
        "task": "skep.files.tidy",
        "schedule": 3600.0,
        "options": {"expires": 600},
    },
    "tidy-logins": {
        "task": "skep.accounts.tidy",
        "schedule": 3600.0,
        "options": {"expires": 600},
    },
}

LOGGING_CONFIG = None  # structlog: see core.logs
