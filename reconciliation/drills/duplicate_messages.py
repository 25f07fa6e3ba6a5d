"""The same message again and again, and other messages about the same goods beside it."""

from __future__ import annotations

from dataclasses import replace

from reconciliation.drills.crowd import Call
from reconciliation.drills.report import Check
from reconciliation.drills.stage import Sale, Stage
from reconciliation.drills.verdict import books

PROCESSES = 4


def run(stage: Stage) -> tuple[Check, ...]:
    """Many messages, one operation; the same message gets the first answer."""
    sales, crowd = stage.sell(), stage.crowd
    at_once = crowd.together(
        [messages(stage, sale) for sale in sales], stage.telling("four messages at once")
    )
    again = crowd.spread([_mail(stage, sale) for sale in sales], stage.telling("delivered again"))
    changed = crowd.spread(
        [_changed(_mail(stage, sale)) for sale in sales], stage.telling("with other content")
    )
    operations = {
        answer.body["operation"]: sale
        for sale, group in zip(sales, at_once, strict=True)
        for answer in group
        if answer.accepted
    }
    one_name = sum(
        len({answer.body.get("operation") for answer in (*group, later)}) == 1
        for group, later in zip(at_once, again, strict=True)
    )
    refused = sum(answer.body.get("code") == "message_changed" for answer in changed)
    stage.inspect(operations)
    stage.approve(operations)
    posted = stage.wait_until_posted(operations)
    return (
        Check("operations", stage.size, len(operations)),
        Check("orders whose five answers name one operation", stage.size, one_name),
        Check("orders whose other content was refused", stage.size, refused),
        Check("operations posted", stage.size, posted),
        *books(stage, operations),
    )


def _mail(stage: Stage, sale: Sale) -> Call:
    return stage.taking_in(sale, "email", f"mail-{sale.number}")


def messages(stage: Stage, sale: Sale) -> list[Call]:
    """One mail that is delivered twice, a call, and a visit to the counter."""
    call = stage.taking_in(sale, "phone", f"call-{sale.number}")
    visit = stage.taking_in(sale, "counter", f"visit-{sale.number}")
    return [_mail(stage, sale), _mail(stage, sale), call, visit]


def _changed(mail: Call) -> Call:
    return replace(mail, body={**(mail.body or {}), "reason": "something else"})
