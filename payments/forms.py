"""The forms of money that a person hands over."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from returns.forms import Styled


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
