"""Money, without floating point."""

from decimal import Decimal


def total(amounts):
    """The sum of amounts that are texts, such as 12.50."""
    return sum(map(Decimal, amounts), Decimal(0))


def shown(amount):
    """An amount for people."""
    return f"{amount:,.2f}"
