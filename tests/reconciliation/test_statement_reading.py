"""Settlement files are read through a declaration, and nothing in them is guessed (RE-02)."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from reconciliation.statements.formats import Format, LineKind, Signed
from reconciliation.statements.known_formats import ADYEN, SANDBOX, STRIPE
from reconciliation.statements.reading import Line, NotReadable, Refused, read

HEADER = "line;kind;amount;currency;at;refund"
PREAMBLE = "Settlement report\nShop;4711\n\nFrom 1 to 30 November\n"

POINT = Format(
    provider="stripe",
    kinds={"refund": LineKind.REFUND, "return": LineKind.REFUND_RETURNED, "fee": LineKind.OTHER},
    kind="kind",
    amount=Signed("amount"),
    currency="currency",
    at="at",
    refund="refund",
    line_id="line",
    delimiter=";",
    grouping="'",
)
COMMA = replace(POINT, decimal_mark=",", grouping=".")


def row(amount: str, number: int = 1, kind: str = "refund", currency: str = "EUR") -> str:
    return f"{number};{kind};{amount};{currency};2026-11-02T10:00:00+01:00;re_{number}"


def lines_of(text: str, written: Format, encoding: str = "utf-8") -> list[Line | Refused | None]:
    return list(read(io.BytesIO(text.encode(encoding)), written))


def amounts(text: str, written: Format, encoding: str = "utf-8") -> list[int | str]:
    """Minor units, or the refusal's line and reason."""
    found: list[int | str] = []
    for line in lines_of(text, written, encoding):
        if isinstance(line, Line):
            found.append(line.amount_minor)
        elif line is not None:
            found.append(f"{line.number}: {line.reason}")
    return found


ROWS = "\n".join([HEADER, row("-10.00", 1), row("-20.50", 2), row("30", 3, kind="return")])


def test_a_byte_order_mark_and_a_preamble_change_nothing() -> None:
    plain = lines_of(ROWS, POINT)
    assert [line.amount_minor for line in plain if isinstance(line, Line)] == [1000, 2050, -3000]
    assert lines_of(ROWS, POINT, "utf-8-sig") == plain
    below = [
        replace(line, number=line.number - 4)
        for line in lines_of(PREAMBLE + ROWS, POINT)
        if isinstance(line, Line)
    ]
    assert below == plain


@pytest.mark.parametrize(
    ("written", "amount", "minor"),
    [
        (COMMA, "-1.355,90", 135590),
        (COMMA, "-10,00", 1000),
        (COMMA, "-1.000", 100000),
        (POINT, "-110.7", 11070),
        (POINT, "-1'000.00", 100000),
        (POINT, "-1000000", 100000000),
    ],
)
def test_an_amount_is_read_as_its_source_writes_it(
    written: Format, amount: str, minor: int
) -> None:
    assert amounts(f"{HEADER}\n{row(amount)}", written) == [minor]


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        (COMMA, "-110.7"),
        (COMMA, "-1,355.90"),
        (COMMA, "-1.00.000"),
        (COMMA, "-10,005"),
        (POINT, "-1,355"),
        (POINT, "-1 000.00"),
        (POINT, "(10.00)"),
        (POINT, "10.00-"),
        (POINT, "1e2"),
        (POINT, "NaN"),
        (POINT, ""),
        (POINT, "-٣"),
        (POINT, "-0.00"),
    ],
)
def test_an_amount_that_is_not_understood_whole_is_refused_with_its_line(
    written: Format, amount: str
) -> None:
    text = "\n".join([HEADER, row("-5", 1), row(amount, 2), row("-7", 3)])
    first, refused, last = amounts(text, written)
    assert (first, last) == (500, 700)
    assert str(refused).startswith("3: ")


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (row("-10", kind="refnud"), "not a kind of line"),
        (row("10"), "sign"),
        (row("-10", kind="return"), "sign"),
        (row("-10", currency="EUX"), "not a currency"),
        (row("-10.5", currency="JPY"), "decimals"),
        ("1;refund;-10;EUR;yesterday;re_1", "not a moment"),
        ("1;refund;-10;EUR", "cells"),
        (f"1;refund;-10;EUR;2026-11-02;{'r' * 201}", "reference"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_reason(cells: str, reason: str) -> None:
    (found,) = lines_of(f"{HEADER}\n{cells}", POINT)
    assert isinstance(found, Refused)
    assert reason in found.reason


def test_lines_that_are_not_about_refunds_are_passed_over_whatever_else_they_say() -> None:
    assert lines_of(f"{HEADER}\n9;fee;about 3;-;-;-", POINT) == [None]


@pytest.mark.parametrize(
    ("text", "encoding", "reason"),
    [
        (HEADER, "utf-8", "no rows"),
        (f"{HEADER}\n\n;;;;;\n", "utf-8", "no rows"),
        ("", "utf-8", "No line near the top"),
        (ROWS.replace("amount", "Amount"), "utf-8", "No line near the top names all of: amount"),
        (f"{HEADER};amount\n{row('-1')};2", "utf-8", "more than once"),
        (ROWS.replace("re_1", "é"), "latin-1", "not written in utf-8"),
        (f'{HEADER}\n1;refund;-1;EUR;"2026\n', "utf-8", "not part of a table"),
    ],
)
def test_a_file_that_is_not_as_declared_is_refused_as_a_whole(
    text: str, encoding: str, reason: str
) -> None:
    with pytest.raises(NotReadable, match=reason):
        lines_of(text, POINT, encoding)


def test_a_line_number_counts_the_lines_of_the_file() -> None:
    text = f'{HEADER}\n1;fee;"over\ntwo lines";EUR;-;-\n{row("wrong", 2)}'
    refused = lines_of(text, POINT)[1]
    assert isinstance(refused, Refused)
    assert refused.number == 4


def test_references_are_text() -> None:
    (line,) = lines_of(f"{HEADER}\n007;refund;-1;EUR;2026-11-02;00012345678901234567890", POINT)
    assert isinstance(line, Line)
    assert (line.line_id, line.refund) == ("007", "00012345678901234567890")


def test_moments_without_a_zone_are_in_the_declared_one() -> None:
    berlin = replace(POINT, zone="Europe/Berlin", at_pattern="%d.%m.%Y %H:%M")
    winter, summer = (
        lines_of(f"{HEADER}\n1;refund;-1;EUR;{day}.2026 12:00;re", berlin)[0]
        for day in ("02.11", "02.07")
    )
    assert isinstance(winter, Line)
    assert isinstance(summer, Line)
    assert winter.at == datetime(2026, 11, 2, 11, tzinfo=UTC)
    assert summer.at == datetime(2026, 7, 2, 10, tzinfo=UTC)


def test_the_sandbox_reads_as_it_writes() -> None:
    text = (
        "line_id,type,refund,payment,amount,currency,created,operation_key\n"
        "txn_1,charge,,pi_1,5800,JPY,2026-11-02T10:00:00Z,\n"
        "txn_2,refund,re_1,pi_1,-5800,JPY,2026-11-02T10:00:00Z,key\n"
        "txn_3,refund_failure,re_1,pi_1,5800,JPY,2026-11-03T10:00:00Z,key\n"
    )
    _, paid, returned = lines_of(text, SANDBOX)
    assert isinstance(paid, Line)
    assert isinstance(returned, Line)
    assert (paid.amount_minor, returned.amount_minor) == (5800, -5800)
    assert (paid.operation, paid.refund, paid.payment) == ("key", "re_1", "pi_1")


def test_stripes_itemised_report_needs_no_metadata_column() -> None:
    text = (
        "balance_transaction_id,created_utc,currency,gross,fee,net,reporting_category,source_id\n"
        "txn_1,2026-11-02 10:00:00,usd,-10.00,0.00,-10.00,refund,re_1\n"
        "txn_2,2026-11-02 11:00:00,usd,-25.00,15.00,-40.00,dispute,dp_1\n"
    )
    refund, dispute = lines_of(text, STRIPE)
    assert isinstance(refund, Line)
    assert isinstance(dispute, Line)
    assert (refund.amount_minor, refund.currency, refund.refund) == (1000, "USD", "re_1")
    assert (dispute.kind, dispute.amount_minor) == (LineKind.CHARGEBACK, 2500)


def test_adyens_settlement_details_have_two_columns_and_a_zone() -> None:
    header = (
        "Psp Reference,Creation Date,TimeZone,Type,Modification Reference,Gross Currency,"
        "Gross Debit (GC),Gross Credit (GC),Modification Merchant Reference"
    )
    rows = [
        "452A,2026-02-10 10:25:36,PST,Refunded,452B,USD,1.00,,key",
        "452A,2026-02-11 10:25:36,PST,RefundedReversed,452B,USD,,1.00,key",
        "452A,2026-02-11 10:25:36,XXT,Refunded,452B,USD,1.00,,key",
        "452A,2026-02-11 10:25:36,PST,Refunded,452B,USD,1.00,1.00,key",
        ",2026-02-15 21:29:37,PST,Fee,Transaction Fees,EUR,,,",
    ]
    refund, returned, no_zone, both, fee = lines_of("\n".join([header, *rows]), ADYEN)
    assert isinstance(refund, Line)
    assert isinstance(returned, Line)
    assert refund.at == datetime(2026, 2, 10, 18, 25, 36, tzinfo=UTC)
    assert (refund.amount_minor, returned.amount_minor) == (100, -100)
    assert (refund.payment, refund.refund, refund.operation) == ("452A", "452B", "key")
    assert isinstance(no_zone, Refused)
    assert isinstance(both, Refused)
    assert fee is None


def test_equal_lines_have_equal_content_and_others_do_not() -> None:
    once, again, other = lines_of("\n".join([HEADER, *[row("-25")] * 2, row("-25", 2)]), POINT)
    assert isinstance(once, Line)
    assert isinstance(again, Line)
    assert isinstance(other, Line)
    assert once.content == again.content != other.content
