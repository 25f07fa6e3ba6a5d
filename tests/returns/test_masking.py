"""Card numbers in what customers write are masked before anything is stored."""

from __future__ import annotations

import pytest

from returns.masking import mask_cards


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("my card 4242 4242 4242 4242, thanks", "my card [card ending 4242], thanks"),
        ("4242-4242-4242-4242", "[card ending 4242]"),
        ("amex 378282246310005.", "amex [card ending 0005]."),
    ],
)
def test_a_card_number_is_cut_to_its_last_four_digits(text: str, kept: str) -> None:
    assert mask_cards(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "order W2611340, article 4012345000170",
        "4242 4242 4242 4241 fails its check digit",
        "call +49 30 1234567 before 2026-11-30",
    ],
)
def test_other_numbers_are_left_alone(text: str) -> None:
    assert mask_cards(text) == text
