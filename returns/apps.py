"""Goods and evidence."""

from django.apps import AppConfig


class ReturnsConfig(AppConfig):
    name = "returns"
    default_auto_field = "django.db.models.BigAutoField"
