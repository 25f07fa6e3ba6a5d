"""Settings. Secrets and addresses come from the environment; production refuses to guess them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pghistory
from django.core.exceptions import ImproperlyConfigured

from config.database_url import DatabaseAddress, NoDatabase

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("DATA_DIR", BASE_DIR / ".data"))

ENVIRONMENTS = ("production", "demo", "test")
DJANGO_ENV = os.environ.get("DJANGO_ENV", "production")
if DJANGO_ENV not in ENVIRONMENTS:
    # A misspelt production must not run on stand-ins for secrets.
    raise ImproperlyConfigured(f"DJANGO_ENV must be one of: {', '.join(ENVIRONMENTS)}.")
PRODUCTION = DJANGO_ENV == "production"
DEBUG = False


def _secret(name: str) -> str:
    """A value that production must be given; elsewhere an obviously unfit one stands in."""
    value = os.environ.get(name, "")
    if not value and PRODUCTION:
        raise ImproperlyConfigured(f"Set {name} in the environment.")
    return value or f"not-a-secret-{name.lower()}"


def _database(url: str) -> dict[str, Any]:
    try:
        address = DatabaseAddress.read(url)
    except NoDatabase as error:
        raise ImproperlyConfigured(str(error)) from error
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": address.name,
        "USER": address.user,
        "PASSWORD": address.password,
        "HOST": address.host,
        "PORT": address.port or "",
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            # A lost connection must not leave a lock behind for long.
            "options": "-c idle_in_transaction_session_timeout=60000",
            # Nor may anybody wait for ever on one whose other end has gone without a word.
            "connect_timeout": 10,
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": 60_000,
        },
    }


SECRET_KEY = _secret("SECRET_KEY")
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "127.0.0.1,localhost").split(",")
CSRF_TRUSTED_ORIGINS = [o for o in os.environ.get("CSRF_TRUSTED_ORIGINS", "").split(",") if o]
DATABASES = {"default": _database(os.environ.get("DATABASE_URL", "postgresql://127.0.0.1/refunds"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.forms",
    "pgtrigger",
    "pghistory",
    "django_q",
    "django_htmx",
    "template_partials",
    "django_filters",
    "rest_framework",
    "rest_framework.authtoken",
    "drf_spectacular",
    "lucide",
    "returns",
    "payments",
    "reconciliation",
    "config",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "pghistory.middleware.HistoryMiddleware",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "returns.views.context.desk",
            ],
        },
    }
]
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"
STORE_TIME_ZONE = os.environ.get("STORE_TIME_ZONE", "Europe/Berlin")

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "templates" / "static"]
STATIC_ROOT = Path(os.environ.get("STATIC_ROOT", DATA_DIR / "static"))
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if DJANGO_ENV in ("production", "demo")
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/desk/"
LOGOUT_REDIRECT_URL = "/sign-in/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:", "blob:"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_AGE = 12 * 60 * 60
if PRODUCTION:
    SECURE_SSL_REDIRECT = True
    # Probes come from beside the process, without TLS, and learn nothing of business.
    SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = 365 * 24 * 60 * 60
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.TokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["returns.request_body.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "returns.api_errors.answer",
}
# The technical history of every row; the database refuses to change it.
PGHISTORY_OBJ_FIELD = pghistory.ObjForeignKey(related_name="history")
PGHISTORY_APPEND_ONLY = True

SPECTACULAR_SETTINGS = {
    "TITLE": "Refund Desk",
    "DESCRIPTION": "Returns and refunds that are never paid twice.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SORT_OPERATIONS": False,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        "OperationStateEnum": "returns.states.OperationState",
        "TaskStateEnum": "returns.states.TaskState",
        "ChannelEnum": "returns.models.Channel",
        "MismatchKindEnum": "reconciliation.models.Mismatch.Kind",
        "MismatchStatusEnum": "reconciliation.models.Mismatch.Status",
        "ResolutionEnum": "reconciliation.resolving.RESOLUTIONS",
    },
}

# The queues. The payment task row is the truth; a queue message is only a nudge.
MONEY_QUEUE = "money"
BOOKS_QUEUE = "books"
Q_CLUSTER = {
    "name": "refund-desk",
    "orm": "default",
    # Longer than the calls one message can lead to; `retry` must be longer still.
    "timeout": 120,
    "retry": 180,
    "max_attempts": 3,
    "ack_failures": True,
    "workers": int(os.environ.get("QUEUE_WORKERS", "4")),
    "queue_limit": 16,
    "bulk": 4,
    "poll": 0.2,
    # Nobody reads what has gone well, and each that ends locks and loads all that are kept.
    "save_limit": 20,
    "catch_up": False,
    "scheduler": False,
    "ALT_CLUSTERS": {
        MONEY_QUEUE: {},
        # Parallel postings only cost lock errors at the ERP.
        BOOKS_QUEUE: {"workers": 1, "timeout": 600, "retry": 900},
    },
}

# One outbound call: connecting and reading end within `call_seconds`; a lease covers the wait
# before it, the call and a margin.
OUTBOUND_TIMING = {
    "lease_seconds": int(os.environ.get("OUTBOUND_LEASE_SECONDS", "30")),
    "call_seconds": int(os.environ.get("OUTBOUND_CALL_SECONDS", "12")),
    "margin_seconds": 3,
}

# The longest a request of ours can travel before it takes effect at the counterpart.
STRIPE_MAX_UNDER_WAY_SECONDS = int(os.environ.get("STRIPE_MAX_UNDER_WAY_SECONDS", "900"))
ERP_MAX_UNDER_WAY_SECONDS = int(os.environ.get("ERP_MAX_UNDER_WAY_SECONDS", "900"))
# A provider that refuses our credentials is asked again after this, not before.
PROVIDER_HALT_SECONDS = int(os.environ.get("PROVIDER_HALT_SECONDS", "300"))

# Name -> adapter. What each promises is declared in payments/capabilities.py.
PAYMENT_PROVIDERS = {
    "stripe": "payments.providers.stripe.StripeProvider",
    "manual": "payments.providers.manual.ManualProvider",
}
STRIPE_API_KEY = _secret("STRIPE_API_KEY")
STRIPE_API_BASE = os.environ.get("STRIPE_API_BASE", "https://api.stripe.com")
# Without a secret the webhook endpoint does not exist.
STRIPE_WEBHOOK_SECRET = os.environ.get("STRIPE_WEBHOOK_SECRET", "")
# Test-mode events never touch live rows; the sandbox speaks in test mode.
STRIPE_LIVE_MODE = PRODUCTION

ERP_ADAPTER = "reconciliation.erp.sandbox.SandboxErp"
ERP_URL = os.environ.get("ERP_URL", "http://127.0.0.1:8002")

# Nothing is reported missing while it may still come: a line or a credit may lag this much.
RECONCILIATION_GRACE_SECONDS = int(os.environ.get("RECONCILIATION_GRACE_SECONDS", "3600"))
# When the last month is reconciled every night, in the store's zone; empty for never.
RECONCILE_AT = os.environ.get("RECONCILE_AT", "" if DJANGO_ENV == "test" else "03:00")
RECONCILE_DAYS = 30
# Settlement files that come through a page; larger ones are for the command.
SETTLEMENT_UPLOAD_MAX_BYTES = 50 * 1024 * 1024
FILE_UPLOAD_HANDLERS = [
    "reconciliation.uploads.TooLargeIsRefused",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "django.core.files.uploadhandler.TemporaryFileUploadHandler",
]
# Settlement files by the name of their source: whose account they are about, and their format.
# The list that a provider gives over its API is about the account that bears the name of the
# provider: its files must be declared for that account, so that both may overlap.
SETTLEMENT_SOURCES = {
    name: {"account": account, "format": f"reconciliation.statements.known_formats.{name.upper()}"}
    for name, account in {"sandbox": "stripe", "stripe": "stripe", "adyen": "adyen"}.items()
}

# Major units: (one manager alone up to, two different managers up to).
APPROVAL_LIMITS = {
    "EUR": ("5000", "20000"),
    "USD": ("5000", "20000"),
    "GBP": ("4000", "16000"),
    "JPY": ("750000", "3000000"),
    "KWD": ("1500", "6000"),
    "other": ("1000", "4000"),
}

# Major units: a mismatch with more at stake is closed by two different people.
RESOLUTION_LIMITS = {
    "EUR": "1000",
    "USD": "1000",
    "GBP": "800",
    "JPY": "150000",
    "KWD": "300",
    "other": "200",
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name} {message}", "style": "{"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "INFO"},
    "loggers": {"django-q": {"level": "WARNING"}, "httpx": {"level": "WARNING"}},
}
