# SPDX-License-Identifier: Apache-2.0
"""What ``top`` and the demo draw: sources, entities by kind, the rate, the latest changes.

The input is a :class:`~watcher_sync.client.stats.StatsSnapshot`. The picture fits into 80 columns and 24 lines; a
larger terminal shows more changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from watcher_sync.client.models import Change, Source
from watcher_sync.client.stats import StatsSnapshot
from watcher_sync.client.terminal import delta_text, plain

_FIXED_LINES: Final = 5
"""Lines besides the sources, the kinds and the changes: the head and the frames."""
_WIDE_COLUMNS: Final = 118
"""From this width on, the changes show whole ids."""
_UUID_LENGTH: Final = 36
_COLOURS: Final = {"created": "green", "updated": "cyan", "deleted": "red"}
_MAX_SOURCES: Final = 6
_MIN_CHANGES: Final = 2
_MIN_LINES: Final = 3
"""Of the sources and the kinds."""
_CHANGES_ONCE: Final = 10


class Screen:
    """Draws the statistics that :attr:`stats` has at the moment. A subclass draws more below them."""

    def __init__(self, *, once: bool = False) -> None:
        """:param once: draw a single picture: without the key that ends ``top``, and only as high as needed."""
        self.stats: StatsSnapshot | None = None
        self._once = once

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        stats = self.stats
        if stats is None:
            yield Text("Asking ...")
            return
        wide = options.max_width >= _WIDE_COLUMNS
        height = options.height or console.height
        below = self._below(height, wide=wide)
        free = height - _FIXED_LINES - sum(lines for _, lines in below)
        lines = max(len(stats.counts), min(len(stats.sources), _MAX_SOURCES) or 1)
        if not self._once:
            lines = max(_MIN_LINES, min(lines, free - _MIN_CHANGES))
        room = min(len(stats.changes), _CHANGES_ONCE) if self._once else max(_MIN_CHANGES, free - lines)
        grid = Table.grid(expand=True)
        grid.add_column(ratio=46)
        grid.add_column(ratio=34)
        grid.add_row(
            panel("Sources", _sources(stats.sources, min(lines, _MAX_SOURCES)), lines),
            panel("Entities", _kinds(stats.counts, lines), lines),
        )
        changes = panel("Recent changes", _changes(stats.changes, room, wide=wide), room)
        yield Group(self._head(stats), grid, changes, *(each for each, _ in below))

    def _note(self) -> str:
        """The right end of the first line."""
        return "" if self._once else "q ends"

    def _below(self, height: int, *, wide: bool) -> Sequence[tuple[RenderableType, int]]:
        """What is drawn below, each with its number of lines.

        :param height: lines of the terminal.
        """
        return ()

    def _head(self, stats: StatsSnapshot) -> RenderableType:
        head = Table.grid(expand=True)
        head.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        head.add_column(justify="right", no_wrap=True)
        left = Text.assemble(("watcher_sync", "bold"), f"  seq {stats.seq:,}")
        if stats.problem:
            left.append(f"  {plain(stats.problem)}", style="bold red")
        else:
            left.append(f"  {stats.rate:,.1f} events/s")
            if stats.behind:
                left.append(f"  {stats.behind:,} behind", style="yellow")
        head.add_row(left, Text(self._note(), style="dim"))
        return head


def _sources(sources: Sequence[Source], lines: int) -> RenderableType:
    if not sources:
        return Text("no source has reported yet", style="dim")
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=16)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis", style="dim")
    ordered = sorted(sources, key=lambda source: (source.fresh, source.source))
    shown = ordered if len(ordered) <= lines else ordered[: lines - 1]
    for source in shown:
        colour = "green" if source.fresh else "yellow" if source.state == "connected" else "red"
        grid.add_row(Text(plain(source.source)), Text(plain(source.state), style=colour), Text(plain(_about(source))))
    if len(shown) < len(ordered):
        grid.add_row(f"{len(ordered) - len(shown)} more", "", "")
    return grid


def _about(source: Source) -> str:
    if not source.fresh:
        return source.problem or source.detail
    parts = []
    if source.lag is not None:
        parts.append(f"{source.lag:,} waiting")
    if source.last_event_age is not None:
        parts.append(f"last {_age(source.last_event_age)} ago")
    return ", ".join(parts)


def _age(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} s"


def _kinds(counts: Mapping[str, int], lines: int) -> RenderableType:
    """The kinds; where there is no room for all, those with the most entities."""
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(style="dim", no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True)
    few = lines - 1 if len(counts) > lines else lines
    shown = sorted(counts, key=lambda kind: -counts[kind])[:few]
    for kind in sorted(shown):
        grid.add_row(Text(plain(kind)), f"{counts[kind]:,}")
    if len(shown) < len(counts):
        grid.add_row(f"{len(counts) - len(shown)} more", "")
    return grid


def _changes(changes: Sequence[Change], lines: int, *, wide: bool) -> RenderableType:
    table = rows_table()
    table.add_column(width=8, justify="right", style="dim")
    table.add_column(width=7)
    table.add_column(width=46 if wide else 24, no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for change in changes[-lines:] if lines else ():
        shortened = not wide and len(change.id) == _UUID_LENGTH
        entity_id = f"{change.id[:8]}\N{HORIZONTAL ELLIPSIS}" if shortened else change.id
        table.add_row(
            str(change.seq),
            Text(change.change, style=_COLOURS.get(change.change, "")),
            Text(plain(f"{change.kind} {entity_id}")),
            Text(plain(_description(change))),
        )
    return table


def _description(change: Change) -> str:
    if change.change != "updated":
        return change.event_type
    delta = {field: values for field, values in change.delta.items() if field != "updated_at"} or change.delta
    return delta_text(delta)


def rows_table() -> Table:
    """A table without a frame, as wide as there is room."""
    return Table(box=None, show_header=False, expand=True, padding=(0, 1, 0, 0), pad_edge=False)


def panel(title: str, content: RenderableType, lines: int) -> Panel:
    """A content of so many lines in a frame, which needs two more."""
    return Panel(content, title=title, title_align="left", box=box.ROUNDED, border_style="dim", height=lines + 2)
