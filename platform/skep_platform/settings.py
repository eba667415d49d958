"""Django settings, all from the environment. Refuses to start half-configured: no default secrets.

SKEP_SECRET_KEY      signing key, at least 32 random characters (required)
SKEP_DATABASE_URL    postgresql://user:password@host:port/name with libpq's parameters, or with a
                     unix socket postgresql://user:password@/name?host=/folder (required)
SKEP_REDIS_URL       redis://:password@host:port, or unix://:password@/path?db=0, or behind Sentinel
                     sentinel://:password@host:port,host:port/0?master=name, with TLS
                     sentinels://… (required)
SKEP_DATA_DIR        where log chunks lie when no object store is set (required)
SKEP_PUBLIC_URL      the address people type, for example https://skep.example.org
SKEP_ALLOW_HTTP      1: SKEP_PUBLIC_URL may be http:// beyond the loopback, for a try-out
SKEP_GATEWAY_URL     where agents reach the gateway (default: where they joined, for a proxy that
                     routes by path); ":8471" is a port of the host that they joined
SKEP_GATEWAY_BACKEND where the web server reaches the gateway, for agents that know nothing but the
                     web address (default http://127.0.0.1:8471)
SKEP_APPS_URL        scheme, domain and port below which each app of a job has a host of its own,
                     such as https://apps.example.net, by a wildcard name and certificate (default:
                     none, and apps cannot be opened)
SKEP_DOCS_URL        where the documentation lies that pages link, as `make docs` builds it
                     (default: what this server serves below /docs/)
SKEP_ALLOWED_HOSTS   comma list; default: the host of SKEP_PUBLIC_URL and loopback
SKEP_TRUSTED_PROXIES comma list of addresses and networks of reverse proxies in front: of them
                     X-Forwarded-For and X-Forwarded-Proto are believed (default: of none)
SKEP_LOG_LEVEL       default INFO
SKEP_SECRETS_KEYS    comma list of keys that seal what jobs keep secret (Fernet keys: 32 bytes,
                     URL-safe base64); the first one seals, all of them open. Default: made from
                     SKEP_SECRET_KEY
SKEP_LOG_STORE       s3://bucket/prefix: log chunks and working files lie there (default: in
                     SKEP_DATA_DIR); credentials and region as for any program of AWS
SKEP_S3_ENDPOINT_URL the address of a store that speaks S3 and is not Amazon's
SKEP_STORAGE_FILES   folder in which each storage is mounted under its name, so that users can list,
                     upload and download files (default: none, and they cannot)
SKEP_VC_OBJECT_STORES  comma list of object stores whose buckets VC admins may add (default none)
SKEP_LOG_RETENTION_DAYS  how long the logs of a finished job are kept (default 30, 0: for ever)
SKEP_METRIC_RETENTION_DAYS  how long samples of GPUs and tasks are kept by the minute (default 30,
                     0: for ever)
SKEP_METRIC_HOURLY_DAYS  how long they are kept by the hour after that, counted from their time
                     (default 180, 0: not)
SKEP_METRIC_DAILY_DAYS   how long they are kept by the day after that (default 730, 0: not)
SKEP_EVENT_RETENTION_DAYS   how long events are kept (default 400, 0: for ever)
SKEP_AUDIT_RETENTION_DAYS   how long audit entries are kept, by month (default 730, 0: for ever)
SKEP_EVENTS_PER_SUBJECT     events kept of one job, node or user, after which the older ones of
                     one kind become one with a count (default 1000, 0: without a bound)
SKEP_USAGE_JOB_RETENTION_DAYS  how long GPU time is kept by job (default 400, 0: for ever)
SKEP_USAGE_RETENTION_DAYS   how long GPU time is kept at all (default 0: for ever)
SKEP_JOB_ARCHIVE_DAYS  when finished jobs whose logs are deleted are archived (default 0: never)
SKEP_JOB_ARCHIVE_KEEP_DAYS  how long they are kept there (default 0: for ever)
SKEP_REGISTRIES      comma list of registries that images may come from: names, *.names, address
                     ranges, and "public" for all at public addresses (default public); give the
                     agents the same
SKEP_CHECK_IMAGES    on (default): a submit is refused when the registry says that an image is not
                     there or not given to the job; warn: it gets a note; off: nothing is asked. A
                     registry that does not answer within 3 s never refuses a job
SKEP_INSECURE_REGISTRIES  comma list of registries that the server asks by plain HTTP, such as
                     registry.lab:5000 (loopback always)
SKEP_SCRATCH_RETENTION_S  how long nodes keep the scratch of a finished job (default 3600)
SKEP_CORDON_FAULTS   a node is cordoned when so many jobs failed on it within 24 h by its fault
                     (default 3, 0: never)
SKEP_NODE_CHECKS     how many rounds of checks a node has to pass in a row before it is used, when
                     it has joined and after its maintenance (default 0: none)
SKEP_NODE_CHECK_PEERS  to how many nodes its network is measured then (default 2, at most 4)
SKEP_NODE_CHECK_MB_S   what it has to carry, in 10^6 bytes a second each way (default 20)
SKEP_VERSION_FLOORS  what becomes of nodes whose runc, NVIDIA toolkit or driver is older than the
                     fix of a known break-out: warn (default), or refuse: nothing is placed there
SKEP_GANG_POOL       IPv4 network out of which gangs over several nodes get their subnets, used by
                     nothing else that nodes reach (default 100.64.0.0/10)
SKEP_EGRESS_ALLOW    comma list of private addresses, networks or address:port that tasks may reach
SKEP_TOKEN_DAYS      how long an API token lives when nothing else is asked for (default 90)
SKEP_TOKEN_MAX_DAYS  how long it may live at most (default 366)
SKEP_REQUIRE_MFA     who must set up multi-factor authentication before anything else when logged in
                     by password: admins, all, or no one (default)
SKEP_PASSWORD_LOGIN  0: only admins log in by a password that is kept here, all others by single
                     sign-on or the directory (default 1)
SKEP_OIDC_ISSUER     address of the OpenID Connect provider for single sign-on (default: none), with
                     SKEP_OIDC_CLIENT_ID and SKEP_OIDC_CLIENT_SECRET as registered there
SKEP_OIDC_NAME       what the button on the login page calls it (default "single sign-on")
SKEP_OIDC_USERNAME_CLAIM   the claim that names a new user (default preferred_username)
SKEP_OIDC_GROUPS_CLAIM     the claim whose groups users join and leave at login (default: none)
SKEP_OIDC_HOSTS      comma list of further hosts of the provider that its configuration may name
SKEP_LDAP_URI        ldaps://host of a directory whose users log in with their password there
                     (default: none; needs the extra skep[ldap]); ldap://host means STARTTLS, except
                     on the loopback, where SKEP_LDAP_START_TLS=1 asks for it
SKEP_LDAP_CA_FILE    certificates of the authorities that its certificate may come from (default:
                     those of the system)
SKEP_LDAP_BIND_DN    who searches there, with the password in the file SKEP_LDAP_BIND_PASSWORD_FILE
                     (default: an anonymous search)
SKEP_LDAP_USER_BASE  below which users are searched by SKEP_LDAP_USER_FILTER (default
                     (uid=%(user)s))
SKEP_LDAP_UID_ATTRIBUTE  what never changes of a user (default entryUUID; objectGUID for Active
                     Directory); SKEP_LDAP_USERNAME_ATTRIBUTE (default uid) names new users, and
                     SKEP_LDAP_EMAIL_ATTRIBUTE (default mail) has their e-mail
SKEP_LDAP_GROUP_BASE below which groups are searched by SKEP_LDAP_GROUP_FILTER (default
                     (member=%(dn)s)); users join and leave at login the groups whose external name
                     is the SKEP_LDAP_GROUP_ATTRIBUTE (default cn). Without a base: no groups
SKEP_FORMER_MEMBERS_JOBS   what becomes of running jobs of people who were deactivated or left their
                     virtual cluster: stop (default), or finish; waiting ones always stop
SKEP_OPENPAI_API     1: OpenPAI's REST API is served below /rest-server, for clients written for it;
                     root: at /api/v2, too (default: not at all)
SKEP_METRICS_LISTEN  address:port of this process's /metrics for Prometheus (default: none); beyond
                     the loopback it takes the bearer token SKEP_METRICS_TOKEN
SKEP_LIVENESS_FILE   file that a worker or beat touches as long as it goes round, with or without
                     PostgreSQL and Redis, for the probe of its container (default: none)
SKEP_LEASE_S, SKEP_HEARTBEAT_S, SKEP_SAMPLE_S   timing of the agents, in seconds
SKEP_PLANNED_ABSENCE_S  how long jobs go on without a server that was stopped on purpose, in
                     seconds (default 3600, at most 86400, 0: no longer than a lease)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from skep_agent.network.rules import Egress
from skep_agent.protocol import NetworkPolicy
from skep_platform import __version__, engine_urls, env_settings, schedule
from skep_platform.core import schema_names

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
    _refuse(engine_urls.database_problem(url))
    known = engine_urls.database_settings(url)
    return {
        "ENGINE": "skep_platform.core.database",
        **known,
        "CONN_HEALTH_CHECKS": True,  # a database that was restarted fails no request of ours
        "OPTIONS": {
            # The same few statements come thousands of times: parsed and planned once a connection.
            "server_side_binding": True,
            "prepare_threshold": 5,
            **engine_urls.DATABASE_TIMEOUTS,
            **known["OPTIONS"],
            "pool": {
                "min_size": 1,
                "max_size": env_settings.whole_number("SKEP_DATABASE_POOL", 16),
                "timeout": 10,
                "reconnect_timeout": 3,  # then anew: see `core.database.base`
            },
        },
    }


def _egress(text: str) -> list[str]:
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    try:
        Egress.of(NetworkPolicy(allowed=entries), (), ())
    except ValueError as error:
        raise ImproperlyConfigured(f"SKEP_EGRESS_ALLOW: {error}") from None
    return entries


SECRET_KEY = _required("SKEP_SECRET_KEY")
_refuse(env_settings.secret_key_problem(SECRET_KEY))
DATABASES = {"default": _database(_required("SKEP_DATABASE_URL"))}
SKEP_REDIS_URL = _required("SKEP_REDIS_URL")
_refuse(engine_urls.redis_problem(SKEP_REDIS_URL))
SKEP_DATA_DIR = Path(_required("SKEP_DATA_DIR"))
SKEP_STORAGE_FILES = os.environ.get("SKEP_STORAGE_FILES", "")
SKEP_PUBLIC_URL = os.environ.get("SKEP_PUBLIC_URL", "http://127.0.0.1:8470")
_allow_http = os.environ.get(env_settings.ALLOW_HTTP, "") == "1"
_refuse(env_settings.public_url_problem(SKEP_PUBLIC_URL, _allow_http))
SKEP_APPS_URL = os.environ.get("SKEP_APPS_URL", "").rstrip("/")
_refuse(env_settings.apps_url_problem(SKEP_APPS_URL, SKEP_PUBLIC_URL, _allow_http))
SKEP_DOCS_URL = os.environ.get("SKEP_DOCS_URL", "")
_refuse(env_settings.docs_url_problem(SKEP_DOCS_URL))
SKEP_METRICS_LISTEN = os.environ.get("SKEP_METRICS_LISTEN", "")
SKEP_METRICS_TOKEN = os.environ.get("SKEP_METRICS_TOKEN", "")
_refuse(env_settings.metrics_problem(SKEP_METRICS_LISTEN, SKEP_METRICS_TOKEN))
SKEP_GATEWAY_URL = os.environ.get("SKEP_GATEWAY_URL", "")
SKEP_GATEWAY_BACKEND = os.environ.get("SKEP_GATEWAY_BACKEND", "http://127.0.0.1:8471")

# A node that lost the server stops its containers `LEASE_S` after its last acknowledged heartbeat;
# the server waits `LEASE_MARGIN_S` longer before it gives the GPUs away.
SKEP_LEASE_S = env_settings.number("SKEP_LEASE_S", 30)
SKEP_LEASE_MARGIN_S = env_settings.number("SKEP_LEASE_MARGIN_S", 5)
_refuse(env_settings.lease_margin_problem(SKEP_LEASE_MARGIN_S))
SKEP_HEARTBEAT_S = env_settings.number("SKEP_HEARTBEAT_S", 5)
# So long nodes are waited for after a planned stop of the server; at most a day.
SKEP_PLANNED_ABSENCE_S = min(env_settings.number("SKEP_PLANNED_ABSENCE_S", 3600), 86400.0)
SKEP_REGISTRIES = os.environ.get("SKEP_REGISTRIES", "")
SKEP_CHECK_IMAGES = os.environ.get("SKEP_CHECK_IMAGES", "") or "on"
_refuse(
    "" if SKEP_CHECK_IMAGES in ("on", "warn", "off") else "SKEP_CHECK_IMAGES is on, warn or off."
)
_insecure = os.environ.get("SKEP_INSECURE_REGISTRIES", "").lower().split(",")
SKEP_INSECURE_REGISTRIES = tuple(word.strip() for word in _insecure if word.strip())
SKEP_CORDON_FAULTS = env_settings.whole_number("SKEP_CORDON_FAULTS", 3)
SKEP_NODE_CHECKS = env_settings.whole_number("SKEP_NODE_CHECKS", 0)
SKEP_NODE_CHECK_PEERS = min(env_settings.whole_number("SKEP_NODE_CHECK_PEERS", 2), 4)
SKEP_NODE_CHECK_MB_S = env_settings.number("SKEP_NODE_CHECK_MB_S", 20)
SKEP_VERSION_FLOORS = os.environ.get("SKEP_VERSION_FLOORS", "warn")
_refuse(
    "" if SKEP_VERSION_FLOORS in ("warn", "refuse") else "SKEP_VERSION_FLOORS is warn or refuse."
)
SKEP_GANG_POOL = os.environ.get("SKEP_GANG_POOL", "100.64.0.0/10")
_refuse(env_settings.gang_pool_problem(SKEP_GANG_POOL))
SKEP_EGRESS_ALLOW = _egress(os.environ.get("SKEP_EGRESS_ALLOW", ""))
SKEP_TOKEN_DAYS = env_settings.number("SKEP_TOKEN_DAYS", 90)
SKEP_TOKEN_MAX_DAYS = env_settings.number("SKEP_TOKEN_MAX_DAYS", 366)
SKEP_FORMER_MEMBERS_JOBS = os.environ.get("SKEP_FORMER_MEMBERS_JOBS", "stop")
SKEP_REQUIRE_MFA = os.environ.get("SKEP_REQUIRE_MFA", "")
_refuse("" if SKEP_REQUIRE_MFA in ("", "admins", "all") else "SKEP_REQUIRE_MFA is admins or all.")
SKEP_PASSWORD_LOGIN = os.environ.get("SKEP_PASSWORD_LOGIN", "1") != "0"
SKEP_OIDC_ISSUER = os.environ.get("SKEP_OIDC_ISSUER", "")
SKEP_OIDC_CLIENT_ID = os.environ.get("SKEP_OIDC_CLIENT_ID", "")
SKEP_OIDC_CLIENT_SECRET = os.environ.get("SKEP_OIDC_CLIENT_SECRET", "")
SKEP_OIDC_NAME = os.environ.get("SKEP_OIDC_NAME", "single sign-on")
SKEP_OIDC_USERNAME_CLAIM = os.environ.get("SKEP_OIDC_USERNAME_CLAIM", "preferred_username")
SKEP_OIDC_GROUPS_CLAIM = os.environ.get("SKEP_OIDC_GROUPS_CLAIM", "")
SKEP_OIDC_HOSTS = [h for h in os.environ.get("SKEP_OIDC_HOSTS", "").split(",") if h]
SKEP_LDAP_URI = os.environ.get("SKEP_LDAP_URI", "")
SKEP_LDAP_START_TLS = os.environ.get("SKEP_LDAP_START_TLS", "") == "1"
SKEP_LDAP_CA_FILE = os.environ.get("SKEP_LDAP_CA_FILE", "")
SKEP_LDAP_BIND_DN = os.environ.get("SKEP_LDAP_BIND_DN", "")
SKEP_LDAP_BIND_PASSWORD_FILE = os.environ.get("SKEP_LDAP_BIND_PASSWORD_FILE", "")
SKEP_LDAP_USER_BASE = os.environ.get("SKEP_LDAP_USER_BASE", "")
SKEP_LDAP_USER_FILTER = os.environ.get("SKEP_LDAP_USER_FILTER", "(uid=%(user)s)")
SKEP_LDAP_UID_ATTRIBUTE = os.environ.get("SKEP_LDAP_UID_ATTRIBUTE", "entryUUID")
SKEP_LDAP_USERNAME_ATTRIBUTE = os.environ.get("SKEP_LDAP_USERNAME_ATTRIBUTE", "uid")
SKEP_LDAP_EMAIL_ATTRIBUTE = os.environ.get("SKEP_LDAP_EMAIL_ATTRIBUTE", "mail")
SKEP_LDAP_GROUP_BASE = os.environ.get("SKEP_LDAP_GROUP_BASE", "")
SKEP_LDAP_GROUP_FILTER = os.environ.get("SKEP_LDAP_GROUP_FILTER", "(member=%(dn)s)")
SKEP_LDAP_GROUP_ATTRIBUTE = os.environ.get("SKEP_LDAP_GROUP_ATTRIBUTE", "cn")
_refuse(
    env_settings.ldap_problem(
        SKEP_LDAP_URI, SKEP_LDAP_USER_BASE, SKEP_LDAP_USER_FILTER, SKEP_LDAP_GROUP_FILTER
    )
)
_refuse(
    env_settings.oidc_problem(
        SKEP_OIDC_ISSUER,
        SKEP_OIDC_CLIENT_ID,
        SKEP_OIDC_CLIENT_SECRET,
        SKEP_PASSWORD_LOGIN or bool(SKEP_LDAP_URI),
    )
)
SKEP_OPENPAI_API = os.environ.get("SKEP_OPENPAI_API", "").removesuffix("0")
_refuse("" if SKEP_OPENPAI_API in ("", "1", "root") else "SKEP_OPENPAI_API is 1 or root.")
PASSWORD_RESET_TIMEOUT = 86_400
SKEP_SAMPLE_S = env_settings.number("SKEP_SAMPLE_S", 5)
_refuse(env_settings.agent_timing_problem(SKEP_LEASE_S, SKEP_HEARTBEAT_S, SKEP_SAMPLE_S))
SKEP_TICK_S = 2.0
SKEP_SCHEDULING: dict[str, Any] = env_settings.scheduling()
SKEP_MAX_SPEC_BYTES = 512 * 1024
SKEP_SECRETS_KEYS = [k for k in os.environ.get("SKEP_SECRETS_KEYS", "").split(",") if k]
SKEP_SCRATCH_RETENTION_S = env_settings.number("SKEP_SCRATCH_RETENTION_S", 3600)
SKEP_LOG_RETENTION_DAYS = env_settings.number("SKEP_LOG_RETENTION_DAYS", 30)
SKEP_METRIC_RETENTION_DAYS = env_settings.number("SKEP_METRIC_RETENTION_DAYS", 30)
SKEP_METRIC_HOURLY_DAYS = env_settings.number("SKEP_METRIC_HOURLY_DAYS", 180)
SKEP_METRIC_DAILY_DAYS = env_settings.number("SKEP_METRIC_DAILY_DAYS", 730)
SKEP_EVENT_RETENTION_DAYS = env_settings.number("SKEP_EVENT_RETENTION_DAYS", 400)
SKEP_AUDIT_RETENTION_DAYS = env_settings.number("SKEP_AUDIT_RETENTION_DAYS", 730)
SKEP_USAGE_JOB_RETENTION_DAYS = env_settings.number("SKEP_USAGE_JOB_RETENTION_DAYS", 400)
SKEP_USAGE_RETENTION_DAYS = env_settings.number("SKEP_USAGE_RETENTION_DAYS", 0)
SKEP_JOB_ARCHIVE_DAYS = env_settings.number("SKEP_JOB_ARCHIVE_DAYS", 0)
SKEP_JOB_ARCHIVE_KEEP_DAYS = env_settings.number("SKEP_JOB_ARCHIVE_KEEP_DAYS", 0)
SKEP_NOTIFICATION_RETENTION_DAYS = env_settings.number("SKEP_NOTIFICATION_RETENTION_DAYS", 30)
SKEP_NOTIFICATION_WINDOW_S = env_settings.number("SKEP_NOTIFICATION_WINDOW_S", 60)
SKEP_NOTIFICATION_WAITING_H = env_settings.number("SKEP_NOTIFICATION_WAITING_H", 6)
SKEP_MAILS_PER_HOUR = env_settings.whole_number("SKEP_MAILS_PER_HOUR", 30)
try:
    SKEP_WEBHOOK_NETWORKS = env_settings.networks(
        "SKEP_WEBHOOK_NETWORKS", os.environ.get("SKEP_WEBHOOK_NETWORKS", "")
    )
    SKEP_VC_OBJECT_STORES = env_settings.object_stores(os.environ.get("SKEP_VC_OBJECT_STORES", ""))
except ValueError as problem:
    raise ImproperlyConfigured(str(problem)) from None
EMAIL_HOST = os.environ.get("SKEP_SMTP_HOST", "")
EMAIL_PORT = env_settings.whole_number("SKEP_SMTP_PORT", 587)
EMAIL_HOST_USER = os.environ.get("SKEP_SMTP_USERNAME", "")
EMAIL_HOST_PASSWORD = os.environ.get("SKEP_SMTP_PASSWORD", "")
_smtp_tls = os.environ.get("SKEP_SMTP_TLS", "starttls")
_refuse(env_settings.smtp_problem(EMAIL_HOST, _smtp_tls, EMAIL_HOST_PASSWORD))
EMAIL_USE_TLS, EMAIL_USE_SSL = _smtp_tls == "starttls", _smtp_tls == "tls"
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = os.environ.get("SKEP_MAIL_FROM", "skep@localhost")
SKEP_EVENTS_PER_SUBJECT = env_settings.whole_number("SKEP_EVENTS_PER_SUBJECT", 1000)

try:
    SKEP_TRUSTED_PROXIES = env_settings.proxy_list(os.environ.get("SKEP_TRUSTED_PROXIES", ""))
except ValueError as problem:
    raise ImproperlyConfigured(str(problem)) from None

DEBUG = os.environ.get("SKEP_DEBUG", "") == "1"
_public = urlsplit(SKEP_PUBLIC_URL)
# Loopback is always allowed: probes come from there.
ALLOWED_HOSTS = [h for h in os.environ.get("SKEP_ALLOWED_HOSTS", "").split(",") if h]
ALLOWED_HOSTS += [_public.hostname or "127.0.0.1", "127.0.0.1", "localhost", "[::1]"]
CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"]
# Scheme and address are those of the ASGI scope: core.serving.behind_proxies has looked at the
# headers of proxies.
SECURE_PROXY_SSL_HEADER = None
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
    # Models and building blocks of the login; no route of theirs is served.
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "skep_platform.core",
    "skep_platform.audit",
    "skep_platform.accounts",
    "skep_platform.tenancy",
    "skep_platform.cluster",
    "skep_platform.images",
    "skep_platform.files",
    "skep_platform.storage",
    "skep_platform.jobs",
    "skep_platform.templates",
    "skep_platform.telemetry",
    "skep_platform.usage",
    "skep_platform.notifications",
    "skep_platform.scheduling",
    "skep_platform.cells",
    "skep_platform.simulations",
    "skep_platform.gateway",
    "skep_platform.interactive",
    "skep_platform.operations",
    "skep_platform.web",
    "skep_platform.compat",
]

MIDDLEWARE = [
    "skep_platform.core.middleware.Probes",
    "skep_platform.core.middleware.RequestLog",
    "skep_platform.core.middleware.Compress",
    "skep_platform.core.middleware.Conditional",
    "skep_platform.web.views.ContentPolicy",
    "django.middleware.security.SecurityMiddleware",
    "skep_platform.web.views.StaticFiles",
    "skep_platform.core.middleware.Sessions",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
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
        "BACKEND": "skep_platform.telemetry.store.ChunkFiles",
        "OPTIONS": {"location": str(SKEP_DATA_DIR / "logs")},
    },
    "files": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(SKEP_DATA_DIR / "files")},
    },
}
if _log_store := os.environ.get("SKEP_LOG_STORE", ""):
    _refuse(env_settings.object_store_problem(_log_store))
    STORAGES["logs"] = {
        "BACKEND": "skep_platform.telemetry.objects.ChunkObjects",
        "OPTIONS": env_settings.object_store(_log_store, "logs"),
    }
    STORAGES["files"] = {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": env_settings.object_store(_log_store, "files"),
    }

CHANNEL_LAYERS: dict[str, Any] = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [engine_urls.channel_host(SKEP_REDIS_URL)], "prefix": "skep"},
    }
}

CACHES = {"default": engine_urls.cache(SKEP_REDIS_URL)}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "skep_platform.accounts.current_user.TokenAuthentication",
        "skep_platform.accounts.current_user.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["skep_platform.core.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "skep_platform.core.schema.Schema",
    "EXCEPTION_HANDLER": "skep_platform.audit.refusals.exception_handler",
    "URL_FORMAT_OVERRIDE": None,  # `format` is a parameter of our own
    "NUM_PROXIES": 0,  # see SECURE_PROXY_SSL_HEADER
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
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "skep_platform.core.schema.nullable_unions",
    ],
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "ENUM_NAME_OVERRIDES": schema_names.ENUMS,
    "ENUM_ADD_EXPLICIT_BLANK_NULL_CHOICE": False,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
}

MFA_ADAPTER = "skep_platform.accounts.mfa.Adapter"
MFA_TOTP_TOLERANCE = 1  # steps of 30 s by which the clock of a phone may differ
MFA_RECOVERY_CODE_DIGITS = 10

# Knox's migrations would create the table of the token model that ours replaces, and the table's
# foreign key keeps a test database from being emptied.
MIGRATION_MODULES = {"knox": None}
KNOX_TOKEN_MODEL = "accounts.ApiToken"  # noqa: S105 a model, not a token
REST_KNOX = {"TOKEN_TTL": None, "AUTH_HEADER_PREFIX": "Bearer", "TOKEN_PREFIX": "skt_"}

CELERY_BROKER_URL = engine_urls.broker_url(SKEP_REDIS_URL)
CELERY_BROKER_USE_SSL = engine_urls.broker_tls(SKEP_REDIS_URL)
CELERY_BROKER_TRANSPORT_OPTIONS = engine_urls.broker_options(SKEP_REDIS_URL)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # by default workers end after 48 minutes without it
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = False  # beat repeats every task; a poison task must not loop
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TIMEZONE = "UTC"
# Names and periods in seconds; `expires` keeps a stopped worker from waking to a pile of ticks.
CELERY_BEAT_SCHEDULE = schedule.beat(SKEP_TICK_S)
CELERY_BEAT_SCHEDULER = "skep_platform.core.beat:LeadingScheduler"

LOGGING_CONFIG = None  # structlog: see core.logs
