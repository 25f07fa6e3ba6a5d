"""The forms of approving in bulk, and of money that a person hands over."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from returns.forms import Styled

_BOX = re.compile(r"(?P<reference>R-[0-9]{1,18}):(?P<version>[0-9]{1,9}):(?P<minor>[0-9]{1,15})")


class Boxes(forms.Field):
    """Ticked boxes, as (reference, version, amount in minor units)."""

    widget = forms.MultipleHiddenInput

    def to_python(self, value: Any) -> list[tuple[str, int, int]]:
        boxes = [_BOX.fullmatch(box) for box in value or []]
        if not boxes or not all(boxes):
            raise forms.ValidationError(_("Choose at least one return of the list."))
        return [(box["reference"], int(box["version"]), int(box["minor"])) for box in boxes if box]


class BatchForm(forms.Form):
    """What was ticked in the inbox. The token makes sending it twice harmless."""

    token = forms.UUIDField()
    chosen = Boxes()

    @property
    def complaints(self) -> list[str]:
        return [str(text) for texts in self.errors.values() for text in texts]


class HandedOverForm(Styled, forms.Form):
    """The money has gone; what proves it."""

    reference = forms.CharField(
        label=_("Number of the receipt or transfer"),
        max_length=200,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


class GivenUpForm(Styled, forms.Form):
    """No money has gone after all; why."""

    reason = forms.CharField(label=_("Why not"), max_length=200)
