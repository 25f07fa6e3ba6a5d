"""`import_orders`: formats, refusals that stop nobody, and a second run that changes nothing."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from returns.identity import NAME_RULE
from returns.importing import canonical, tau_retail
from returns.importing.reading import Broken, NotReadable
from returns.importing.rows import Row
from returns.models import Order, OrderBalance, RefusedAttempt, Tender
from returns.order_import import importer
from tests import factories

TAU_RETAIL = Path(__file__).resolve().parents[3] / "shared" / "data" / "tau_retail"
needs_tau_retail = pytest.mark.skipif(
    not TAU_RETAIL.is_dir(), reason="the tau-retail data is not beside the project"
)


def order(number: str = "A1", **changed: Any) -> dict[str, Any]:
    """An order in the canonical format."""
    return {
        "number": number,
        "currency": "EUR",
        "placed_at": "2026-03-01T12:00:00Z",
        "lines": [{"id": "shirt", "quantity": 1, "unit_price": "10.00"}],
        "tenders": [{"id": "card", "provider": "stripe", "payment": "pi_1", "amount": "10.00"}],
        **changed,
    }


def tau_order(**changed: Any) -> dict[str, Any]:
    """An order as the benchmark has them."""
    return {
        "order_id": "#W1",
        "user_id": "ada_1",
        "status": "delivered",
        "items": [{"item_id": "11", "name": "Mug", "price": 2.5, "options": {"color": "red"}}],
        "payment_history": [
            {"transaction_type": "payment", "amount": 2.5, "payment_method_id": "gift_card_1"}
        ],
        **changed,
    }


def written(tmp_path: Path, text: str | bytes, name: str = "orders.json") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def report(path: Path, *, refused: bool = False, **options: Any) -> dict[str, Any]:
    """Import and read the report; `refused` says which exit code must come."""
    output = StringIO()
    if refused:
        with pytest.raises(SystemExit) as leaving:
            call_command("import_orders", path, json=True, stdout=output, **options)
        assert leaving.value.code == 1
    else:
        call_command("import_orders", path, json=True, stdout=output, **options)
    figures: dict[str, Any] = json.loads(output.getvalue())
    return figures


def numbers(path: Path) -> list[str]:
    return [row.number if isinstance(row, Row) else row.reason for row in canonical.rows(path)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("array.json", json.dumps([order("A1"), order("A2")])),
        ("keyed.json", json.dumps({"A1": order("A1"), "A2": order("A2")}, indent=2)),
        ("keyed_once.json", json.dumps({n: {**order(n), "number": n} for n in ("A1", "A2")})),
        ("lines.jsonl", f"{json.dumps(order('A1'))}\n\n{json.dumps(order('A2'))}\n"),
        ("lines.txt", f"\ufeff{json.dumps(order('A1'))}\n{json.dumps(order('A2'))}"),
    ],
)
def test_a_file_may_be_an_array_keyed_or_lines(tmp_path: Path, name: str, text: str) -> None:
    assert numbers(written(tmp_path, text, name)) == ["A1", "A2"]


def test_a_keyed_order_need_not_repeat_its_number(tmp_path: Path) -> None:
    body = order()
    del body["number"]
    assert numbers(written(tmp_path, json.dumps({"A7": body}))) == ["A7"]


def test_a_single_order_is_a_file_too(tmp_path: Path) -> None:
    assert numbers(written(tmp_path, json.dumps(order("A1"), indent=2))) == ["A1"]


@pytest.mark.parametrize("text", ["", "{", "17", '"x"', b"\xff\xfe", "[" * 100_000])
def test_a_file_that_is_no_json_is_refused_whole(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(NotReadable):
        list(canonical.rows(written(tmp_path, text)))


@pytest.mark.parametrize("name", ["orders.json", "orders.jsonl"])
def test_a_file_of_another_format_is_refused_once(tmp_path: Path, name: str) -> None:
    ours, theirs = [order("A1"), order("A2")], [tau_order(), tau_order(order_id="#W2")]
    write = "\n".join if name.endswith("l") else (lambda rows: f"[{','.join(rows)}]")
    for orders, rows, other in (
        (theirs, canonical.rows, "tau-retail"),
        (ours, tau_retail.rows, "canonical"),
    ):
        path = written(tmp_path, write([json.dumps(one) for one in orders]), name)
        with pytest.raises(NotReadable, match=f"--format {other}"):
            list(rows(path))


@pytest.mark.django_db
def test_a_file_of_another_format_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps({"#W1": tau_order()}))
    with pytest.raises(CommandError, match="tau-retail"):
        call_command("import_orders", path)
    assert not Order.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(("key", "name"), [("#A1", "#A1"), ("A1", "A1")])
def test_a_refused_order_is_named_once(tmp_path: Path, key: str, name: str) -> None:
    path = written(tmp_path, json.dumps({key: {**order(key), "shipping": "5.00"}}))
    output = StringIO()
    with pytest.raises(SystemExit):
        call_command("import_orders", path, stdout=output)
    assert output.getvalue().startswith(f"refused  {name}: tenders: ")


def test_a_broken_line_stops_nobody(tmp_path: Path) -> None:
    lines = [json.dumps(order("A1")), "{", json.dumps([1]), json.dumps(order("A2"))]
    rows = list(canonical.rows(written(tmp_path, "\n".join(lines), "o.jsonl")))
    assert [isinstance(row, Broken) for row in rows] == [False, True, True, False]
    assert [row.place for row in rows] == ["line 1", "line 2", "line 3", "line 4"]


@pytest.mark.django_db
def test_orders_come_in_and_a_second_import_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps([order("A1"), order("#A2")]))
    assert report(path) == {"imported": 2, "extended": 0, "unchanged": 0, "refused": []}
    before = list(Order.objects.order_by("pk").values())
    assert report(path) == {"imported": 0, "extended": 0, "unchanged": 2, "refused": []}
    assert list(Order.objects.order_by("pk").values()) == before
    assert [row["number"] for row in before] == ["A1", "A2"]


@pytest.mark.django_db
def test_a_refused_order_says_why_and_stops_nobody(tmp_path: Path) -> None:
    wrong = [
        order("A1"),
        order("A2", shipping=3),
        order("A3", shipping="5.00"),
        order("A 4"),
        {"currency": "EUR"},
        order("A5"),
    ]
    figures = report(written(tmp_path, json.dumps(wrong)), refused=True)
    assert figures["imported"] == 2
    assert [(r["place"], r["number"], r["reason"]) for r in figures["refused"]] == [
        ("entry 2", "A2", 'shipping: Give the amount as text, for example "47.84".'),
        ("entry 3", "A3", "tenders: Tenders add up to 10.00, lines and shipping to 15.00."),
        (
            "entry 4",
            "A 4",
            f"number: “A 4”: use 1 to 64 {NAME_RULE}.",
        ),
        ("entry 5", "", "It has no number."),
    ]


@pytest.mark.django_db
def test_a_field_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    text = json.dumps([order("A1")]).replace('"quantity": 1', '"quantity": 1, "quantity": 5')
    (refusal,) = report(written(tmp_path, text), refused=True)["refused"]
    assert refusal["reason"] == "lines.0.quantity (given twice): There is no such field."


@pytest.mark.django_db
def test_an_order_that_returns_rest_on_is_not_changed(tmp_path: Path) -> None:
    stored = factories.received().order
    changed = order(stored.number, currency=stored.currency)
    (refusal,) = report(written(tmp_path, json.dumps([changed])), refused=True)["refused"]
    assert refusal["number"] == stored.number
    assert "changed" in refusal["facts"]
    assert RefusedAttempt.objects.filter(code="order_changed").exists()


@pytest.mark.django_db
def test_only_an_account_that_may_take_orders_in_stands_behind_an_import(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps([order("A1")]))
    factories.desk()
    for username in ("desk", "nobody"):
        with pytest.raises(CommandError):
            call_command("import_orders", path, username=username)
    assert not Order.objects.exists()


@pytest.mark.django_db
def test_the_importer_cannot_sign_in() -> None:
    assert importer() == importer()
    assert not importer().has_usable_password()


def tau_rows(tmp_path: Path, *orders: dict[str, Any]) -> list[Any]:
    path = written(tmp_path, json.dumps({o["order_id"]: o for o in orders}))
    return [row.body if isinstance(row, Row) else row.reason for row in tau_retail.rows(path)]


def test_the_same_item_twice_is_two_units(tmp_path: Path) -> None:
    mug, dear = ({"item_id": "11", "name": "Mug", "price": price} for price in (2.5, 3.1))
    (body,) = tau_rows(tmp_path, tau_order(items=[mug, dear, mug]))
    assert [(x["id"], x["quantity"], x["unit_price"]) for x in body["lines"]] == [
        ("11", 2, "2.5"),
        ("11-2", 1, "3.1"),
    ]


@pytest.mark.parametrize(
    ("method", "provider", "label"),
    [
        ("credit_card_7", "stripe", "Card"),
        ("paypal_7", "manual", "PayPal"),
        ("gift_card_7", "manual", "Gift card"),
    ],
)
def test_a_payment_method_tells_its_provider(
    tmp_path: Path, method: str, provider: str, label: str
) -> None:
    payment = {"transaction_type": "payment", "amount": 2.5, "payment_method_id": method}
    (body,) = tau_rows(tmp_path, tau_order(payment_history=[payment]))
    assert body["tenders"] == [
        {"id": method, "provider": provider, "payment": method, "label": label, "amount": "2.5"}
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"items": [{"item_id": 11, "name": "Mug", "price": 1}]},
        {"items": [{"item_id": "11", "name": "Mug", "price": 1, "quantity": "2"}]},
        {"items": "Mug"},
        {"payment_history": [{"transaction_type": "chargeback"}]},
        {
            "payment_history": [
                {"transaction_type": "payment", "amount": 1, "payment_method_id": "cheque_1"}
            ]
        },
    ],
)
def test_what_the_format_does_not_promise_is_refused(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    (reason,) = tau_rows(tmp_path, tau_order(**changed))
    assert isinstance(reason, str)


@needs_tau_retail
# Each order in a transaction of its own, as in an import; a thousand savepoints of one transaction
# would make every reader beside it look them all up.
@pytest.mark.django_db(transaction=True)
def test_a_thousand_orders_of_others_come_in_and_again_change_nothing() -> None:
    # The group comes with a migration, and an earlier test's flush may have taken it.
    factories.integration()
    orders, customers = TAU_RETAIL / "orders.json", TAU_RETAIL / "users.json"
    options: dict[str, Any] = {"format": "tau-retail", "customers": customers}
    nothing_refused = {"extended": 0, "refused": []}
    assert report(orders, **options) == {"imported": 1000, "unchanged": 0, **nothing_refused}
    assert report(orders, **options) == {"imported": 0, "unchanged": 1000, **nothing_refused}
    assert Order.objects.filter(delivered=True).count() == 373
    assert Tender.objects.filter(label__regex=r"^Mastercard ending \d{4}$").exists()
    # The cancelled ones had been paid back in full before they came here.
    paid_back = OrderBalance.objects.filter(external_minor__gt=0)
    assert [balance.remaining_minor for balance in paid_back] == [0] * 102
    assert not any(balance.order.delivered for balance in paid_back.select_related("order"))
