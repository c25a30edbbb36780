# SPDX-License-Identifier: Apache-2.0
"""The results of the benchmarks, and their presentation: one table for people, one JSON document for machines.

A :class:`Figure` is a number that is compared with a budget. Only the budget knows whether a larger or a smaller
number is better. Pure; any thread.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table


class Budget(msgspec.Struct, frozen=True):
    """What the design allows.

    :ivar sense: ``>=`` at least the limit, ``<=`` at most.
    """

    sense: Literal[">=", "<="]
    limit: float
    unit: str = ""

    def met(self, value: float) -> bool:
        """Whether the value keeps the budget."""
        return value >= self.limit if self.sense == ">=" else value <= self.limit

    def __str__(self) -> str:
        return f"{self.sense} {number(self.limit)} {self.unit}".rstrip()


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table.

    :ivar measured: the median, in ``unit``.
    :ivar reference: the reference's median, in ``reference_unit``; None where there is none.
    :ivar ratio: the median of measured / reference pair by pair; None where there is no reference.
    :ivar of_ratio: whether the budget is one for the ratio.
    """

    benchmark: str
    what: str
    measured: float
    unit: str
    budget: Budget | None = None
    reference: float | None = None
    reference_unit: str = ""
    ratio: float | None = None
    of_ratio: bool = False
    samples: Sequence[float] = ()
    note: str = ""

    def met(self) -> bool | None:
        """Whether the budget is met; None if there is none."""
        if self.budget is None:
            return None
        value = self.ratio if self.of_ratio else self.measured
        return value is not None and self.budget.met(value)


def against(
    pairs: Sequence[tuple[float, float]],
    *,
    benchmark: str,
    what: str,
    unit: str,
    reference_unit: str,
    budget: Budget | None,
    note: str = "",
) -> Figure:
    """The figure of a subject measured in pairs with its reference; the budget is one for the ratio.

    :param pairs: (subject, reference), both rates.
    :raises ValueError: when there is no pair.
    """
    if not pairs:
        raise ValueError(f"{what}: nothing was measured")
    return Figure(
        benchmark=benchmark,
        what=what,
        measured=statistics.median(subject for subject, _ in pairs),
        unit=unit,
        reference=statistics.median(reference for _, reference in pairs),
        reference_unit=reference_unit,
        ratio=statistics.median(subject / reference for subject, reference in pairs),
        of_ratio=True,
        budget=budget,
        samples=[subject for subject, _ in pairs],
        note=note,
    )


def number(value: float) -> str:
    """Three significant digits, and no more than are needed."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def print_table(figures: Iterable[Figure], console: Console) -> None:
    """All figures in one table."""
    table = Table("what", box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for column in ("measured", "reference", "ratio", "budget", "met?"):
        table.add_column(column, justify="right", no_wrap=True)
    for figure in figures:
        met = figure.met()
        table.add_row(
            f"{figure.what}\n  {figure.note}" if figure.note else figure.what,
            f"{number(figure.measured)} {figure.unit}",
            "" if figure.reference is None else f"{number(figure.reference)} {figure.reference_unit}",
            "" if figure.ratio is None else number(figure.ratio),
            "" if figure.budget is None else str(figure.budget),
            "" if met is None else "yes" if met else "NO",
            style="bold red" if met is False else "",
        )
    console.print(table, highlight=False, markup=False)


def document(figures: Iterable[Figure], **about: Any) -> bytes:
    """All figures as one JSON object, with whatever else is to be said about the run."""
    shown = [{**msgspec.to_builtins(figure), "met": figure.met()} for figure in figures]
    return msgspec.json.format(msgspec.json.encode({**about, "figures": shown})) + b"\n"
