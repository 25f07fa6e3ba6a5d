"""What finance sends: days to reconcile, and settlement files."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from reconciliation.uploads import is_text
from returns.forms import Styled


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
