"""Every address, by the app that owns its verb."""

from django.contrib import admin
from django.urls import include, path

APPS = ("returns", "payments", "reconciliation")

urlpatterns = [
    path("admin/", admin.site.urls),
    *(path("api/v1/", include(f"{app}.api_urls")) for app in APPS),
    *(path("", include(f"{app}.urls")) for app in APPS),
]
