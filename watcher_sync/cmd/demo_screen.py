# SPDX-License-Identifier: Apache-2.0
"""What a person sees of the demo: a live picture on a terminal, a line now and then anywhere else.

It draws :class:`Figures` and knows nothing of where they come from. It fits 80 columns and 24 lines; a
larger terminal shows more changes and more of the quarantine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from watcher_sync.model.changes import Outcome
from watcher_sync.sources.base import SourceState, SourceStatus
from watcher_sync.storage.journal import JournalRow

_FIXED_LINES: Final = 11
"""Lines of the picture besides the changes, the quarantine and where to look."""

_WIDE: Final = 118

_UUID: Final = 36

_COLOURS: Final = {"created": "green", "updated": "cyan", "deleted": "red"}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The demo at one moment."""

    elapsed: float
    """Seconds since the start."""
    length: float | None
    """Seconds that it is to run; None: until interrupted."""
    phase: str
    rate: float
    """Committed events a second."""
    published: int
    committed: int
    outcomes: Mapping[str, int]
    counts: Mapping[str, int]
    """kind -> entities."""
    seq: int
    sources: Mapping[str, SourceStatus]
    changes: Sequence[JournalRow]
    """The latest, oldest first."""
    quarantined: int
    quarantine: Sequence[Mapping[str, Any]]
    """The latest, oldest first."""

    @property
    def lag(self) -> int:
        """Events that were published and are not committed yet."""
        return max(0, self.published - self.committed)


class Screen:
    """The live picture; draws the figures that it was given last."""

    def __init__(self, *, look: Sequence[str], page: str) -> None:
        """:param look: commands that look into the demo.

        :param page: where the page is.
        """
        self.figures: Figures | None = None
        self._commands = look
        self._page = page

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        figures = self.figures
        if figures is None:
            yield Text("Starting ...")
            return
        wide = options.max_width >= _WIDE
        look = self._look()
        room = max(4, (options.height or console.height) - _FIXED_LINES - len(look))
        bad = max(2, room // 3)
        yield Group(
            _head(figures),
            _overview(figures),
            _panel("Recent changes, from the journal", _changes(figures.changes, room - bad, wide=wide)),
            _panel(f"Quarantine: {figures.quarantined}", _quarantine(figures.quarantine, bad)),
            *look,
        )

    def _look(self) -> list[Text]:
        lines = [Text.assemble(("look yourself: ", "dim"), f"{self._page}/", (" or, from another shell:", "dim"))]
        lines += [Text(f"  {command}") for command in self._commands]
        for line in lines:
            line.no_wrap = True
            line.overflow = "ellipsis"
        return lines


def plain_line(figures: Figures) -> str:
    """The figures on one line."""
    counts = ", ".join(f"{kind} {count:,}" for kind, count in figures.counts.items())
    return (
        f"{figures.elapsed:4.0f} s  {figures.phase}: {figures.rate:,.0f} events/s, lag {figures.lag:,}, "
        f"seq {figures.seq:,}; {counts}; quarantined {figures.quarantined:,}"
    )


def _head(figures: Figures) -> RenderableType:
    of = f" of {figures.length:.0f}" if figures.length is not None else ""
    head = Table.grid(expand=True)
    head.add_column(no_wrap=True)
    head.add_column(justify="right", no_wrap=True)
    head.add_row(
        f"[bold]watcher_sync[/]  {figures.phase}",
        f"{figures.elapsed:.0f}{of} s   [dim]Ctrl-C ends[/]",
    )
    return head


def _overview(figures: Figures) -> RenderableType:
    flow = _grid()
    flow.add_row("events/s", f"[bold]{figures.rate:,.0f}[/]", "applied", f"{figures.outcomes[Outcome.APPLIED]:,}")
    flow.add_row("published", f"{figures.published:,}", "stale", f"{figures.outcomes[Outcome.STALE]:,}")
    flow.add_row("committed", f"{figures.committed:,}", "duplicate", f"{figures.outcomes[Outcome.DUPLICATE]:,}")
    flow.add_row("lag", f"{figures.lag:,}", "ignored", f"{figures.outcomes[Outcome.IGNORED]:,}")
    model = _grid(2)
    for kind, count in list(figures.counts.items())[:3]:
        model.add_row(kind, f"{count:,}")
    model.add_row("journal seq", f"{figures.seq:,}")
    sources = Table.grid(padding=(0, 1))
    for name, status in list(figures.sources.items())[:4]:
        colour = "green" if status.state is SourceState.CONNECTED else "yellow"
        sources.add_row(name, f"[{colour}]{status.state.value}[/]")
        for line in (status.detail, f"{status.lag:,} waiting" if status.lag is not None else ""):
            if line:
                sources.add_row("", Text(line, style="dim", overflow="ellipsis", no_wrap=True))
    row = Table.grid(expand=True)
    for ratio in (44, 26, 24):
        row.add_column(ratio=ratio)
    row.add_row(_panel("Events", flow, 6), _panel("Model", model, 6), _panel("Sources", sources, 6))
    return row


def _changes(changes: Sequence[JournalRow], lines: int, *, wide: bool) -> RenderableType:
    table = _lines()
    table.add_column(width=7, justify="right", style="dim")
    table.add_column(width=7)
    table.add_column(width=46 if wide else 24, no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for row in changes[-lines:]:
        entity_id = (
            row.entity_id if wide or len(row.entity_id) != _UUID else f"{row.entity_id[:8]}\N{HORIZONTAL ELLIPSIS}"
        )
        table.add_row(
            str(row.seq),
            Text(row.change, style=_COLOURS.get(row.change, "")),
            Text(f"{row.kind} {entity_id}"),
            Text(_delta(row)),
        )
    return _filled(table, lines, len(changes))


def _quarantine(rows: Sequence[Mapping[str, Any]], lines: int) -> RenderableType:
    table = _lines()
    table.add_column(width=5, justify="right", style="dim")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for row in rows[-lines:]:
        kind = f"{row['event_type']}: " if row["event_type"] else ""
        table.add_row(str(row["id"]), Text(" ".join(f"{kind}{row['reason']}".split()), style="yellow"))
    return _filled(table, lines, len(rows))


def _delta(row: JournalRow) -> str:
    if row.change == "deleted":
        return row.event_type
    if row.change == "created":
        return f"{row.event_type} {row.delta['name'][1]}" if "name" in row.delta else row.event_type
    if not row.delta:
        return f"{row.event_type}: newer, nothing else"
    telling = {field: values for field, values in row.delta.items() if field != "updated_at"} or row.delta
    return ", ".join(f"{field}: {_short(old)} -> {_short(new)}" for field, (old, new) in telling.items())


def _short(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list | dict):
        return "[...]" if isinstance(value, list) else "{...}"
    return str(value)


def _grid(columns: int = 4) -> Table:
    grid = Table.grid(padding=(0, 1), expand=True)
    for column in range(columns):
        grid.add_column(justify="right" if column % 2 else "left", style="" if column % 2 else "dim", no_wrap=True)
    return grid


def _lines() -> Table:
    return Table(box=None, show_header=False, expand=True, padding=(0, 1, 0, 0), pad_edge=False)


def _filled(table: Table, lines: int, rows: int) -> RenderableType:
    """Always of the same height, so that the picture does not jump."""
    missing = lines - min(lines, rows)
    return Group(*([table] if rows else []), *(Text() for _ in range(missing)))


def _panel(title: str, content: RenderableType, height: int | None = None) -> Panel:
    return Panel(content, title=title, title_align="left", box=box.ROUNDED, border_style="dim", height=height)
