"""What finance sends: days to reconcile, settlement files, and how a mismatch is closed."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from reconciliation.resolving import MOST_CHARACTERS, RESOLUTIONS
from reconciliation.uploads import is_text
from returns.forms import Styled
from returns.queries import key_of


class DaysForm(Styled, forms.Form):
    """The days of a run, both included."""

    first = forms.DateField(
        label=gettext_lazy("From"), widget=forms.DateInput(attrs={"type": "date"})
    )
    last = forms.DateField(label=gettext_lazy("To"), widget=forms.DateInput(attrs={"type": "date"}))


class SettlementForm(Styled, forms.Form):
    """A settlement file and the source that says how it is written."""

    source = forms.ChoiceField(
        label=gettext_lazy("Source"),
        choices=lambda: [(name, name) for name in sorted(settings.SETTLEMENT_SOURCES)],
    )
    file = forms.FileField(label=gettext_lazy("Settlement file"), max_length=200)

    def clean_file(self) -> UploadedFile[Any]:
        """Refuse by size and by what is in it; the name says nothing."""
        file: UploadedFile[Any] = self.cleaned_data["file"]
        most = settings.SETTLEMENT_UPLOAD_MAX_BYTES
        if file.size is None or file.size > most:
            raise forms.ValidationError(
                _("At most %(most)s; larger files are for the command import_settlement.")
                % {"most": filesizeformat(most)}
            )
        if not is_text(file):
            raise forms.ValidationError(
                _("This is no text file. Export the statement as CSV and send that.")
            )
        return file


class FocusedChoices(forms.RadioSelect):
    """Radio buttons of which the chosen one, or else the first, has the focus."""

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        context = super().get_context(name, value, attrs)
        options = [option for _, group, _ in context["widget"]["optgroups"] for option in group]
        chosen = [option for option in options if option["selected"]]
        (chosen or options)[0]["attrs"]["autofocus"] = True
        return context


class ResolutionForm(Styled, forms.Form):
    """How a mismatch is closed, and why."""

    resolution = forms.ChoiceField(
        label=gettext_lazy("Close it as"),
        choices=RESOLUTIONS,
        widget=FocusedChoices,
        error_messages={"required": gettext_lazy("Choose how it is closed.")},
    )
    operation = forms.CharField(
        label=gettext_lazy("Return to link to"), required=False, max_length=40
    )
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        help_text=gettext_lazy("In some words, for whoever reads it a year later."),
        max_length=MOST_CHARACTERS,
        error_messages={"required": gettext_lazy("Say why, in some words.")},
    )
    evidence = forms.CharField(
        label=gettext_lazy("Evidence"),
        help_text=gettext_lazy("A link, the name of a file, the number of an entry or ticket."),
        max_length=MOST_CHARACTERS,
        required=False,
    )

    def clean_operation(self) -> str:
        """The name of a return that exists, or nothing."""
        name: str = self.cleaned_data["operation"]
        if name and key_of(name) is None:
            raise forms.ValidationError(_("There is no return of this name."))
        return name
