# SPDX-License-Identifier: Apache-2.0
"""The result of the story: step x mode, with what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence


class Table:
    """The differences after each step, by mode.

    :param modes: the columns.
    """

    def __init__(self, modes: Sequence[str]) -> None:
        self._rows: list[Sequence[str]] = [("step", *modes)]
        self._modes = modes

    def add(self, step: str, labels: Mapping[str, Sequence[str]]) -> None:
        """Add a step. ``labels`` has the name of each difference, by mode."""
        self._rows.append((step, *(_cell(labels[mode]) for mode in self._modes)))

    def lines(self) -> Iterable[str]:
        """One line a step, in columns."""
        widths = [max(len(row[column]) for row in self._rows) for column in range(len(self._modes))]
        for row in self._rows:
            cells = [cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)]
            yield " | ".join(cells)


def _cell(labels: Sequence[str]) -> str:
    counts = Counter(labels)
    return ", ".join(f"{name} x{count}" if count > 1 else name for name, count in sorted(counts.items())) or "-"
