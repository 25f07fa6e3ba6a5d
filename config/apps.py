"""The project itself: it registers the refusals of `config.checks`."""

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    name = "config"

    def ready(self) -> None:
        """Make the checks known to `manage.py` and to the web process."""
        import config.checks  # noqa: F401, PLC0415 - registers on import, needs loaded apps
