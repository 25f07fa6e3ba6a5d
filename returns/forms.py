"""The forms of the pages. They read what a person typed; the rules live in the verbs."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import django_filters
from babel.numbers import format_decimal
from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.db.models import Q, QuerySet
from django.forms.renderers import TemplatesSetting
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_lazy as _

from returns import money
from returns.inspection import UnitFound
from returns.models import Claim, Order, RefundOperation
from returns.return_request import Item, ReturnRequest
from returns.states import OperationState

# A line with more units than this gets one field for "how many" instead of a box for each.
MOST_BOXES = 12


class FieldRenderer(TemplatesSetting):
    """Every field is drawn by templates/field.html."""

    field_template_name = "field.html"


class Styled(forms.BaseForm):
    """Draws its fields with the house's template and classes."""

    default_renderer = FieldRenderer

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            if isinstance(field.widget, forms.Select) and not isinstance(
                field.widget, forms.RadioSelect
            ):
                field.widget.attrs.setdefault("class", "form-select")
            elif isinstance(field.widget, forms.CheckboxInput | forms.RadioSelect):
                field.widget.attrs.setdefault("class", "form-check-input")
            else:
                field.widget.attrs.setdefault("class", "form-control")


class SignInForm(Styled, AuthenticationForm):
    """Name and password."""


class ScanForm(Styled, forms.Form):
    """The scan box."""

    q = forms.CharField(required=False, max_length=300)


def _note(label: Any, *, required: bool = False, rows: int = 2) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": rows})
    return forms.CharField(label=label, required=required, max_length=2000, widget=widget)


class TakeInForm(Styled, forms.Form):
    """Which units of an order the customer brought. The token makes sending it twice harmless."""

    token = forms.UUIDField(widget=forms.HiddenInput)
    shipping = forms.BooleanField(required=False, label=_("Refund the shipping charge too"))
    reason = forms.CharField(
        required=False, max_length=200, label=_("Reason"), help_text=_("In your own words.")
    )
    customer_text = _note(_("What the customer said"))

    def __init__(self, *args: Any, order: Order, **kwargs: Any) -> None:
        kwargs.setdefault("initial", {"token": uuid4()})
        super().__init__(*args, **kwargs)
        self.order = order
        if order.shipping_minor == 0:
            del self.fields["shipping"]

    @property
    def chosen(self) -> list[str]:
        """The boxes that are ticked, as "line:unit"."""
        return self.data.getlist("unit") if self.is_bound else []  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        cleaned["items"] = self._items()
        if not cleaned["items"] and not cleaned.get("shipping"):
            raise forms.ValidationError(_("Choose what the customer brought back."))
        return cleaned

    def request(self, channel: str) -> ReturnRequest:
        """What the form asks for; the token is the message's id."""
        return ReturnRequest(
            channel=channel,
            message_id=f"form-{self.cleaned_data['token']}",
            order=self.order.number,
            items=self.cleaned_data["items"],
            shipping=self.cleaned_data.get("shipping", False),
            reason=self.cleaned_data["reason"].strip(),
            customer_text=self.cleaned_data["customer_text"].strip(),
        )

    def _items(self) -> tuple[Item, ...]:
        units: dict[str, set[int]] = {}
        for box in self.chosen:
            line, _colon, unit = box.rpartition(":")
            if line and unit.isascii() and unit.isdigit() and len(unit) < 7:
                units.setdefault(line, set()).add(int(unit))
        for line_id, numbers in self._counted():
            units.setdefault(line_id, set()).update(numbers)
        return tuple(Item(line, units=tuple(sorted(units[line]))) for line in sorted(units))

    def _counted(self) -> list[tuple[str, list[int]]]:
        """For long lines: the first so-many of the units that were free when the form was drawn.

        Units and not a mere number, so that two people with the same goods before them mean the
        same units.
        """
        counted = []
        for line in self.order.lines.all():
            count = self.data.get(f"count:{line.line_id}", "").strip()
            if not count.isascii() or not count.isdigit() or len(count) > 6 or int(count) == 0:
                continue
            free = expanded(self.data.get(f"free:{line.line_id}", ""), line.quantity)
            if int(count) > len(free):
                raise forms.ValidationError(
                    _("Of %(line)s only %(free)d are free."),
                    params={"line": line.description or line.line_id, "free": len(free)},
                )
            counted.append((line.line_id, free[: int(count)]))
        return counted


def compressed(numbers: list[int]) -> str:
    """Ascending numbers as ranges: 1, 2, 3, 7 is "1-3 7"."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return " ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)


def expanded(text: str, most: int) -> list[int]:
    """The numbers of a text of ranges, none above `most`; what is no range counts for nothing."""
    numbers: list[int] = []
    for part in text.split():
        first, _dash, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            numbers.extend(range(int(first), min(int(last or first), most) + 1))
    return numbers


class UnitForm(Styled, forms.Form):
    """What was found about one unit; only claims of goods get this form."""

    ACCEPTED, REJECTED = "accepted", "rejected"
    verdict = forms.ChoiceField(
        label=_("Verdict"),
        choices=[(ACCEPTED, _("Accept")), (REJECTED, _("Reject"))],
        widget=forms.RadioSelect,
        error_messages={"required": _("Accept or reject this unit.")},
    )
    condition = forms.ChoiceField(
        label=_("Condition"),
        required=False,
        choices=[
            ("as new", _("as new")),
            ("opened", _("opened")),
            ("used", _("used")),
            ("damaged", _("damaged")),
            ("faulty", _("faulty")),
            ("incomplete", _("incomplete")),
            ("not what was sold", _("not what was sold")),
        ],
    )
    restock = forms.BooleanField(label=_("Back on the shelf"), required=False)

    def __init__(self, claim: Claim, data: Any = None) -> None:
        super().__init__(data, prefix=f"unit-{claim.pk}")
        self.claim = claim

    @property
    def found(self) -> UnitFound:
        return UnitFound(
            line=self.claim.line.line_id,  # type: ignore[union-attr]
            unit=self.claim.unit,  # type: ignore[arg-type]
            condition=self.cleaned_data["condition"],
            restock=self.cleaned_data["restock"],
        )


class VersionedForm(Styled, forms.Form):
    """A decision about an operation as it was when the form was drawn."""

    version = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, operation: RefundOperation, data: Any = None, **kwargs: Any) -> None:
        initial = {"version": operation.version, **kwargs.pop("initial", {})}
        super().__init__(data, initial=initial, **kwargs)
        self.operation = operation


class InspectionForm(VersionedForm):
    """The findings about every unit of a return."""

    note = _note(_("Note"))

    def __init__(self, operation: RefundOperation, data: Any = None, **kwargs: Any) -> None:
        super().__init__(operation, data, **kwargs)
        goods = [c for c in operation.claims.all() if c.live and c.kind == Claim.Kind.LINE]
        self.units = [UnitForm(claim, data) for claim in goods]

    def is_valid(self) -> bool:
        return all([super().is_valid(), *(unit.is_valid() for unit in self.units)])

    def findings(self, verdict: str) -> list[UnitFound]:
        """The units that got this verdict."""
        return [unit.found for unit in self.units if unit.cleaned_data["verdict"] == verdict]


class RejectionForm(VersionedForm):
    """Why a manager says no."""

    reason = _note(_("Reason"), required=True)


class WithdrawalForm(VersionedForm):
    """The customer keeps the goods after all."""

    reason = _note(_("Reason"))


class ApprovalForm(VersionedForm):
    """How much is to be paid back. What was understood is shown before it counts."""

    seen_remaining = forms.IntegerField(widget=forms.HiddenInput)
    # The amount the button named. Another amount is first read back, then approved.
    understood = forms.IntegerField(widget=forms.HiddenInput, required=False)
    amount = forms.CharField(label=_("Amount to refund"), max_length=40)
    note = _note(_("Note"))

    def __init__(
        self,
        operation: RefundOperation,
        data: Any = None,
        *,
        amount_minor: int,
        most_minor: int,
        remaining_minor: int,
        **kwargs: Any,
    ) -> None:
        self.currency = operation.currency
        self.most_minor, self.remaining_minor = most_minor, remaining_minor
        initial = {
            "amount": typed(amount_minor, operation.currency),
            "understood": amount_minor,
            "seen_remaining": remaining_minor,
            **kwargs.pop("initial", {}),
        }
        super().__init__(operation, data, initial=initial, **kwargs)
        attrs = {"inputmode": "decimal", "autocomplete": "off", "class": "form-control money"}
        self.fields["amount"].widget.attrs.update(attrs)
        if operation.amount_minor is not None:
            self.fields["amount"].widget.attrs["readonly"] = True

    @property
    def needs_reading_back(self) -> bool:
        """Whether the button named another amount than the one that was sent."""
        return bool(self.cleaned_data["amount"] != self.cleaned_data["understood"])

    def clean_amount(self) -> int:
        """Minor units, read the way the user's language writes numbers."""
        text = self.cleaned_data["amount"]
        digits = "".join(text.split())
        if len(digits) >= 8 and digits.isdigit():
            raise forms.ValidationError(_("This looks like a scanned code, not like an amount."))
        try:
            minor = money.parse_localised(text, self.currency, get_language() or "en")
        except money.NotMoney as error:
            raise forms.ValidationError(str(error)) from error
        if minor == 0:
            raise forms.ValidationError(_("The amount must be above zero."))
        if minor > self.most_minor and not self._drawn_on_other_figures():
            raise forms.ValidationError(self._limit())
        return minor

    def _drawn_on_other_figures(self) -> bool:
        """Whether the balance has changed since: then that is what must be said."""
        seen_minor: int | None = self.cleaned_data.get("seen_remaining")
        return seen_minor is not None and seen_minor != self.remaining_minor

    def _limit(self) -> str:
        most = money.shown(self.most_minor, self.currency, get_language() or "en")
        if self.most_minor == self.remaining_minor:
            return gettext("At most %(most)s: that is all this order has left.") % {"most": most}
        if self.operation.amount_minor is not None:
            return gettext("At most %(most)s: so much is still owed.") % {"most": most}
        return gettext("At most %(most)s: what came back is worth that.") % {"most": most}


def typed(minor: int, currency: str) -> str:
    """An amount as it would be typed into a field in the user's language."""
    digits = money.exponent(currency)
    pattern = "0" + ("." + "0" * digits if digits else "")
    locale = (get_language() or "en").replace("-", "_")
    return str(format_decimal(money.major(minor, currency), format=pattern, locale=locale))


class ReturnFilter(django_filters.FilterSet):  # type: ignore[misc]
    """The list of returns by state and by what it is about."""

    state = django_filters.ChoiceFilter(choices=OperationState.choices, empty_label=_("any state"))
    text = django_filters.CharFilter(
        method="containing", label=_("Return, order or customer"), max_length=100
    )

    class Meta:
        model = RefundOperation
        fields = ["state"]

    def containing(
        self, rows: QuerySet[RefundOperation], name: str, value: str
    ) -> QuerySet[RefundOperation]:
        text = value.replace("\x00", "").strip()
        matches = Q(order__number__icontains=text) | Q(order__customer_name__icontains=text)
        number = text.upper().removeprefix("R-")
        if number.isascii() and number.isdigit() and len(number) <= 18:
            matches |= Q(pk=int(number))
        return rows.filter(matches)
