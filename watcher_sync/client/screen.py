# SPDX-License-Identifier: Apache-2.0
"""What ``top`` draws: sources, entities by kind, the rate, the latest changes.

It draws :class:`~watcher_sync.client.stats.Figures` and knows nothing of where they come from. It fits 80 columns and
24 lines; a larger terminal shows more changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from watcher_sync.client.formatting import delta_text, plain
from watcher_sync.client.models import Change, Source
from watcher_sync.client.stats import Figures

_FIXED_LINES: Final = 5
"""Lines besides the sources, the kinds and the changes: the head and the frames."""
_WIDE: Final = 118
_UUID: Final = 36
_COLOURS: Final = {"created": "green", "updated": "cyan", "deleted": "red"}
_MOST_SOURCES: Final = 6


class Screen:
    """The picture of the figures that it was given last."""

    def __init__(self, *, once: bool = False) -> None:
        """:param once: it is looked at once: no keys are named, and it is only as high as it has to be."""
        self.figures: Figures | None = None
        self._once = once

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        figures = self.figures
        if figures is None:
            yield Text("Asking ...")
            return
        lines = max(len(figures.counts), min(len(figures.sources), _MOST_SOURCES) or 1)
        height = options.height or console.height
        room = min(len(figures.changes), 10) if self._once else max(3, height - lines - _FIXED_LINES)
        grid = Table.grid(expand=True)
        grid.add_column(ratio=46)
        grid.add_column(ratio=34)
        grid.add_row(
            _panel("Sources", _sources(figures.sources), lines + 2), _panel("Entities", _kinds(figures), lines + 2)
        )
        yield Group(
            self._head(figures),
            grid,
            _panel("Recent changes", _changes(figures.changes, room, wide=options.max_width >= _WIDE), room + 2),
        )

    def _head(self, figures: Figures) -> RenderableType:
        head = Table.grid(expand=True)
        head.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        head.add_column(justify="right", no_wrap=True)
        left = Text.assemble(("watcher_sync", "bold"), f"  seq {figures.seq:,}")
        if figures.trouble:
            left.append(f"  {plain(figures.trouble)}", style="bold red")
        else:
            left.append(f"  {figures.rate:,.1f} events/s")
            if figures.behind:
                left.append(f"  {figures.behind:,} behind", style="yellow")
        head.add_row(left, Text("" if self._once else "q ends", style="dim"))
        return head


def _sources(sources: Sequence[Source]) -> RenderableType:
    if not sources:
        return Text("none has told anything yet", style="dim")
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=16)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis", style="dim")
    ordered = sorted(sources, key=lambda source: (source.fresh, source.source))
    shown = ordered if len(ordered) <= _MOST_SOURCES else ordered[: _MOST_SOURCES - 1]
    for source in shown:
        colour = "green" if source.fresh else "yellow" if source.state == "connected" else "red"
        grid.add_row(Text(plain(source.source)), Text(source.state, style=colour), Text(plain(_about(source))))
    if len(shown) < len(ordered):
        grid.add_row(f"{len(ordered) - len(shown)} more", "", "")
    return grid


def _about(source: Source) -> str:
    if not source.fresh:
        return source.trouble or source.detail
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


def _kinds(figures: Figures) -> RenderableType:
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(style="dim", no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True)
    for kind, count in figures.counts.items():
        grid.add_row(Text(plain(kind)), f"{count:,}")
    return grid


def _changes(changes: Sequence[Change], lines: int, *, wide: bool) -> RenderableType:
    table = Table(box=None, show_header=False, expand=True, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(width=8, justify="right", style="dim")
    table.add_column(width=7)
    table.add_column(width=46 if wide else 24, no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for change in changes[-lines:] if lines else ():
        shortened = not wide and len(change.id) == _UUID
        entity_id = f"{change.id[:8]}\N{HORIZONTAL ELLIPSIS}" if shortened else change.id
        table.add_row(
            str(change.seq),
            Text(change.change, style=_COLOURS.get(change.change, "")),
            Text(plain(f"{change.kind} {entity_id}")),
            Text(plain(_what(change))),
        )
    return table


def _what(change: Change) -> str:
    if change.change != "updated":
        return change.event_type
    telling = {field: values for field, values in change.delta.items() if field != "updated_at"} or change.delta
    return delta_text(telling)


def _panel(title: str, content: RenderableType, height: int) -> Panel:
    return Panel(content, title=title, title_align="left", box=box.ROUNDED, border_style="dim", height=height)
