"""The project itself: it registers the refusals of `config.checks`, and arms fail points."""

import os

from django.apps import AppConfig
from django.conf import settings


class ProjectConfig(AppConfig):
    name = "config"

    def ready(self) -> None:
        """Make the checks known to `manage.py` and to the web process."""
        import config.checks  # noqa: PLC0415 - registers on import, needs loaded apps

        if os.environ.get("FAIL_POINTS") and not settings.PRODUCTION:
            import config.fail_points  # noqa: PLC0415 - not even loaded anywhere else

            config.fail_points.arm_from_environment()
