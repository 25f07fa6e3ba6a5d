"""Make the people and programs of the demo."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.utils.crypto import salted_hmac
from rest_framework.authtoken.models import Token

from returns.permissions import ADMIN, DESK, FINANCE, INTEGRATION, MANAGER

# Who signs in on the pages, and their group. Larger refunds need two different managers.
PEOPLE = {
    "desk": DESK,
    "manager": MANAGER,
    "manager2": MANAGER,
    "finance": FINANCE,
    "admin": ADMIN,
}
# Who comes through the API: token name -> (account, group). The online channel is support staff.
PROGRAMS = {
    "integration": ("integration", INTEGRATION),
    "online": ("online", DESK),
    "manager": ("manager", MANAGER),
    "manager2": ("manager2", MANAGER),
    "finance": ("finance", FINANCE),
}
# People type passwords.
DERIVED_LENGTHS = {"passwords": 12, "tokens": 40}


class Command(BaseCommand):
    help = (
        "Makes or corrects the demo's accounts from the passwords and tokens in the file that "
        "DEMO_SECRETS names. Running it again changes nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print accounts with their secrets")

    def handle(self, *args: Any, **options: Any) -> None:
        """Make the accounts and print them; refuses in production."""
        if settings.PRODUCTION:
            raise CommandError("Demo accounts have no place in production.")
        secrets = _secrets()
        passwords = {name: _secret(secrets, "passwords", name) for name in PEOPLE}
        tokens = {name: _secret(secrets, "tokens", name) for name in PROGRAMS}
        with transaction.atomic():
            for name, group in PEOPLE.items():
                _person(name, group, passwords[name])
            for name, (account, group) in PROGRAMS.items():
                _program(account, group, tokens[name])
        if options["json"]:
            users = {n: {"username": n, "password": word} for n, word in passwords.items()}
            self.stdout.write(json.dumps({"users": users, "tokens": tokens}))
        else:
            self.stdout.write(f"People: {', '.join(PEOPLE)}. API: {', '.join(PROGRAMS)}.")


def _secrets() -> dict[str, dict[str, str]]:
    path = os.environ.get("DEMO_SECRETS")
    if not path:
        raise CommandError("DEMO_SECRETS must name the demo's file of passwords and tokens.")
    try:
        secrets: dict[str, dict[str, str]] = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    return secrets


def _secret(secrets: dict[str, dict[str, str]], kind: str, name: str) -> str:
    """The one that was drawn by lot, or for whoever came later one derived from the secret key."""
    drawn = secrets.get(kind, {}).get(name)
    return drawn or salted_hmac(f"demo {kind}", name).hexdigest()[: DERIVED_LENGTHS[kind]]


def _person(username: str, group: str, password: str) -> User:
    user = _account(username, group)
    # Finance works the queue of mismatches in the admin; `ReadOnly` there asks for the role.
    user.is_staff = group in (FINANCE, ADMIN)
    user.is_superuser = group == ADMIN
    # Setting a password again would end every session.
    if not user.check_password(password):
        user.set_password(password)
    user.save()
    return user


def _program(username: str, group: str, key: str) -> None:
    user = _account(username, group)
    if not user.password:
        user.set_unusable_password()
        user.save()
    Token.objects.filter(user=user).exclude(key=key).delete()
    Token.objects.get_or_create(user=user, key=key)


def _account(username: str, group: str) -> User:
    user, _ = User.objects.get_or_create(username=username)
    user.groups.set([Group.objects.get(name=group)])
    return user
