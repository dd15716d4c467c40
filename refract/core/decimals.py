"""Numbers as people read them: the one place where a number is rounded to be shown."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

MISSING = "—"


def decimals(value: float, sign: str = "", places: int = 3) -> str:
    """A number with so many decimals.

    A half that floats hold exactly (0.3125) goes to the even digit, as Python writes it; a decimal that
    lies above or below its half by chance (0.8295) goes away from zero."""
    digits = Decimal(repr(value))
    rounding = ROUND_HALF_EVEN if Decimal(value) == digits else ROUND_HALF_UP
    # Adding zero takes the sign from a zero that rounding can leave.
    rounded = digits.quantize(Decimal(1).scaleb(-places), rounding) + 0
    return f"{rounded:{sign}.{places}f}"


def interval_text(interval: tuple[float, float] | None, sign: str = "", places: int = 3) -> str:
    """An interval in brackets; empty where there is none, as for one request with several attacks."""
    if interval is None:
        return ""
    low, high = interval
    return f"[{decimals(low, sign, places)}, {decimals(high, sign, places)}]"


def estimate_text(
    value: float | None,
    interval: tuple[float, float] | None = None,
    sign: str = "",
    places: int = 3,
) -> str:
    """A number and its interval, such as ``0.912 [0.850, 0.950]``."""
    if value is None:
        return MISSING
    return f"{decimals(value, sign, places)} {interval_text(interval, sign, places)}".rstrip()
