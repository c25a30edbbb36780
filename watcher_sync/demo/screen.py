# SPDX-License-Identifier: Apache-2.0
"""What the demo draws in addition to ``top``, and the line that it prints where the output is no terminal.

Below the picture of ``top`` are the figures of the simulation, the quarantine, the VNF instances, the last webhooks and
commands for another shell. The whole fits 80 columns and 24 lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from watcher_sync.client.screen import Screen, panel, rows_table
from watcher_sync.client.stats import StatsSnapshot
from watcher_sync.client.terminal import plain

_TALL: Final = 30
"""Lines of a terminal that has room for three webhooks and for all commands; another one shows the last and two."""

_OUTCOMES: Final = ("applied", "stale", "duplicate", "ignored", "parked")

_STATES: Final = {"SYNCED": "green", "SETTLING": "cyan", "UNKNOWN": "dim"}
"""Of VNF instances; the others have a problem."""


class VnfRow(msgspec.Struct, frozen=True, kw_only=True):
    """One VNF instance."""

    name: str
    state: str
    levels: str
    """Aspect, level and highest level; a dash for a level that was not seen yet."""
    pods: int
    """Those that count."""
    held_by: str
    """The holder of the lease and its operation; empty: no lease."""


class DemoFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The simulation and its engine at one moment."""

    elapsed: float
    """Seconds since the start."""
    length: float | None
    """Seconds that it is to run; None: until interrupted."""
    phase: str
    published: int
    committed: int
    outcomes: Mapping[str, int]
    """The engine's counters by name."""
    quarantined: int
    quarantine: Sequence[Mapping[str, Any]]
    """The latest, oldest first."""
    vnfs: Sequence[VnfRow] = ()
    operations: str = ""
    """What life-cycle managers did, in a few words."""
    webhooks: Sequence[str] = ()
    """A line for each of the last deliveries, oldest first."""

    @property
    def lag(self) -> int:
        """Events that were published and are not committed yet."""
        return max(0, self.published - self.committed)


class DemoScreen(Screen):
    """The live picture; draws the statistics and the figures that it was given last."""

    figures: DemoFigures

    def __init__(self, *, commands: Sequence[str], page: str) -> None:
        """:param commands: commands that show the model.

        :param page: where the page is.
        """
        super().__init__()
        self._commands = commands
        self._page = page

    def _note(self) -> str:
        figures = self.figures
        of = f" of {figures.length:.0f}" if figures.length is not None else ""
        return f"{figures.phase}  {figures.elapsed:.0f}{of} s  Ctrl-C ends"

    def _below(self, height: int, *, wide: bool) -> list[tuple[RenderableType, int]]:
        figures, is_tall = self.figures, height >= _TALL
        bad = max(2, (height - 20) // 4, len(figures.vnfs))
        flow = f"published {figures.published:,}  committed {figures.committed:,}  lag {figures.lag:,}"
        outcomes = "  ".join(f"{name} {figures.outcomes[name]:,}" for name in _OUTCOMES)
        lines = [Text(f"{flow}   {outcomes}")] if wide else [Text(flow), Text(outcomes)]
        hints = [
            *(("webhook: ", line) for line in figures.webhooks[-3 if is_tall else -1 :]),
            ("look yourself: ", f"{self._page}/, or from another shell:"),
            *(("  ", command) for command in self._commands[: None if is_tall else 2]),
        ]
        hint_lines = [Text.assemble((name, "dim"), plain(text)) for name, text in hints]
        for line in (*lines, *hint_lines):
            line.no_wrap = True
            line.overflow = "ellipsis"
        return [
            *((line, 1) for line in lines),
            (_bottom(figures, bad, wide=wide), bad + 2),
            *((line, 1) for line in hint_lines),
        ]


def plain_line(figures: DemoFigures, stats: StatsSnapshot) -> str:
    """The figures on one line."""
    counts = ", ".join(f"{kind} {count:,}" for kind, count in stats.counts.items())
    operations = f"; {figures.operations}" if figures.operations else ""
    return (
        f"{figures.elapsed:4.0f} s  {figures.phase}: {stats.rate:,.0f} events/s, lag {figures.lag:,}, "
        f"seq {stats.seq:,}; {counts}; quarantined {figures.quarantined:,}{operations}"
    )


def _bottom(figures: DemoFigures, lines: int, *, wide: bool) -> RenderableType:
    """The quarantine, and beside it the VNF instances where there are any."""
    quarantine = panel(f"Quarantine: {figures.quarantined}", _quarantine(figures.quarantine[-lines:]), lines)
    if not figures.vnfs:
        return quarantine
    row = Table.grid(expand=True)
    row.add_column(ratio=3)
    row.add_column(ratio=4 if wide else 6)
    vnfs = _vnfs(figures.vnfs[:lines], wide=wide)
    row.add_row(quarantine, panel(figures.operations or "VNF instances", vnfs, lines))
    return row


def _vnfs(rows: Sequence[VnfRow], *, wide: bool) -> RenderableType:
    table = rows_table()
    table.add_column(max_width=20 if wide else 8, no_wrap=True, overflow="ellipsis")
    table.add_column(width=12 if wide else 9, no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            Text(plain(row.name)),
            Text(row.state, style=_STATES.get(row.state, "yellow")),
            Text.assemble(plain(row.levels), (f"  {plain(row.held_by)}" if row.held_by else "", "bold")),
            f"{row.pods} pods" if wide else str(row.pods),
        )
    return table


def _quarantine(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = rows_table()
    table.add_column(width=5, justify="right", style="dim")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for row in rows:
        kind = f"{row['event_type']}: " if row["event_type"] else ""
        table.add_row(str(row["id"]), Text(plain(" ".join(f"{kind}{row['reason']}".split())), style="yellow"))
    return table
