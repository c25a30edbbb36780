# SPDX-License-Identifier: Apache-2.0
"""Draws the figures of the demo on a terminal, or prints a line where the output is no terminal.

It draws :class:`ScreenFigures` without knowing their origin. The picture fits 80 columns and 24 lines; a
larger terminal
shows more changes, more of the quarantine and every kind of the model.
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

from watcher_sync.escaping import escaped
from watcher_sync.model.changes import Outcome
from watcher_sync.sources.base import SourceState, SourceStatus
from watcher_sync.storage.writing.journal import JournalRow

_FIXED_LINES: Final = 7
"""Lines of the picture besides the overview, the changes, the quarantine and where to look."""

_OVERVIEW: Final = 5
"""Lines of the overview, at least."""

_TALL: Final = 30
"""Lines of a terminal that has room for all kinds."""

_DELIVERIES: Final = 3
"""Deliveries that a tall terminal shows; another one shows the last."""

_WIDE: Final = 118

_UUID: Final = 36

_COLOURS: Final = {"created": "green", "updated": "cyan", "deleted": "red"}

_STATES: Final = {"SYNCED": "green", "SETTLING": "cyan", "UNKNOWN": "dim"}
"""Of VNF instances; the others are trouble."""

_FIRST: Final = ("compute_node", "instance", "service_type_instance", "workload", "pod")
"""Kinds that are shown where there is no room for all."""


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


class ScreenFigures(msgspec.Struct, frozen=True, kw_only=True):
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
    vnfs: Sequence[VnfRow] = ()
    operations: str = ""
    """What life-cycle managers did, in a few words."""
    webhooks: Sequence[str] = ()
    """A line for each of the last deliveries, oldest first."""

    @property
    def lag(self) -> int:
        """Events that were published and are not committed yet."""
        return max(0, self.published - self.committed)


class DemoScreen:
    """The live picture; draws the figures that it was given last."""

    def __init__(self, *, commands: Sequence[str], page: str) -> None:
        """:param commands: commands that show the model.

        :param page: where the page is.
        """
        self.figures: ScreenFigures | None = None
        self._commands = commands
        self._page = page

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        figures = self.figures
        if figures is None:
            yield Text("Starting ...")
            return
        wide = options.max_width >= _WIDE
        height = options.height or console.height
        hints = [*_deliveries(figures.webhooks[-_DELIVERIES if height >= _TALL else -1 :]), *self._hints()]
        kinds = [kind for kind, count in figures.counts.items() if count and kind not in _FIRST]
        overview = max(_OVERVIEW, len(_FIRST) + len(kinds)) if height >= _TALL else _OVERVIEW
        room = max(4, height - _FIXED_LINES - overview - len(hints))
        bad = max(2, room // 3, len(figures.vnfs))
        yield Group(
            _head(figures),
            _overview(figures, overview),
            _panel("Recent changes, from the journal", _changes(figures.changes, room - bad, wide=wide)),
            _bottom(figures, bad, wide=wide),
            *hints,
        )

    def _hints(self) -> list[Text]:
        lines = [Text.assemble(("look yourself: ", "dim"), f"{self._page}/", (" or, from another shell:", "dim"))]
        lines += [Text(f"  {command}") for command in self._commands]
        for line in lines:
            line.no_wrap = True
            line.overflow = "ellipsis"
        return lines


def _deliveries(lines: Sequence[str]) -> list[Text]:
    """The last webhooks."""
    return [Text.assemble(("webhook: ", "dim"), escaped(line), no_wrap=True, overflow="ellipsis") for line in lines]


def plain_line(figures: ScreenFigures) -> str:
    """The figures on one line."""
    counts = ", ".join(f"{kind} {count:,}" for kind, count in figures.counts.items())
    operations = f"; {figures.operations}" if figures.operations else ""
    return (
        f"{figures.elapsed:4.0f} s  {figures.phase}: {figures.rate:,.0f} events/s, lag {figures.lag:,}, "
        f"seq {figures.seq:,}; {counts}; quarantined {figures.quarantined:,}{operations}"
    )


def _head(figures: ScreenFigures) -> RenderableType:
    of = f" of {figures.length:.0f}" if figures.length is not None else ""
    head = Table.grid(expand=True)
    head.add_column(no_wrap=True)
    head.add_column(justify="right", no_wrap=True)
    head.add_row(
        f"[bold]watcher_sync[/]  {figures.phase}",
        f"{figures.elapsed:.0f}{of} s   [dim]Ctrl-C ends[/]",
    )
    return head


def _overview(figures: ScreenFigures, lines: int) -> RenderableType:
    flow = _grid()
    flow.add_row("events/s", f"[bold]{figures.rate:,.0f}[/]", "applied", f"{figures.outcomes[Outcome.APPLIED]:,}")
    flow.add_row("published", f"{figures.published:,}", "stale", f"{figures.outcomes[Outcome.STALE]:,}")
    flow.add_row("committed", f"{figures.committed:,}", "duplicate", f"{figures.outcomes[Outcome.DUPLICATE]:,}")
    flow.add_row("lag", f"{figures.lag:,}", "ignored", f"{figures.outcomes[Outcome.IGNORED]:,}")
    flow.add_row("seq", f"{figures.seq:,}", "parked", f"{figures.outcomes[Outcome.PARKED]:,}")
    model = Table.grid(padding=(0, 1), expand=True)
    model.add_column(ratio=1, style="dim", no_wrap=True, overflow="ellipsis")
    model.add_column(justify="right", no_wrap=True)
    known = [kind for kind in _FIRST if kind in figures.counts]
    others = [kind for kind, count in figures.counts.items() if count and kind not in _FIRST]
    for kind in [*known, *others][:lines]:
        model.add_row(kind, f"{figures.counts[kind]:,}")
    sources = Table.grid(padding=(0, 1))
    left = lines - len(figures.sources)
    for name, status in list(figures.sources.items())[:lines]:
        connected = status.state is SourceState.CONNECTED
        sources.add_row(name, f"[{'green' if connected else 'yellow'}]{status.state.value}[/]")
        more = (f"{status.lag:,} waiting" if status.lag else "") if connected else status.detail
        if more and left > 0:
            left -= 1
            sources.add_row("", Text(escaped(more), style="dim", overflow="ellipsis", no_wrap=True))
    row = Table.grid(expand=True)
    for ratio in (44, 26, 24):
        row.add_column(ratio=ratio)
    height = lines + 2
    row.add_row(_panel("Events", flow, height), _panel("Model", model, height), _panel("Sources", sources, height))
    return row


def _bottom(figures: ScreenFigures, lines: int, *, wide: bool) -> RenderableType:
    """The quarantine, and beside it the VNF instances where there are any."""
    quarantine = _panel(f"Quarantine: {figures.quarantined}", _quarantine(figures.quarantine, lines))
    if not figures.vnfs:
        return quarantine
    row = Table.grid(expand=True)
    row.add_column(ratio=3)
    row.add_column(ratio=4 if wide else 6)
    title = figures.operations or "VNF instances"
    row.add_row(quarantine, _panel(title, _vnfs(figures.vnfs, lines, wide=wide)))
    return row


def _vnfs(rows: Sequence[VnfRow], lines: int, *, wide: bool) -> RenderableType:
    table = _lines()
    table.add_column(max_width=20 if wide else 8, no_wrap=True, overflow="ellipsis")
    table.add_column(width=12 if wide else 9, no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    for row in rows[:lines]:
        table.add_row(
            Text(escaped(row.name)),
            Text(row.state, style=_STATES.get(row.state, "yellow")),
            Text.assemble(escaped(row.levels), (f"  {escaped(row.held_by)}" if row.held_by else "", "bold")),
            f"{row.pods} pods" if wide else str(row.pods),
        )
    return _filled(table, lines, len(rows))


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
            Text(escaped(f"{row.kind} {entity_id}")),
            Text(escaped(_delta(row))),
        )
    return _filled(table, lines, len(changes))


def _quarantine(rows: Sequence[Mapping[str, Any]], lines: int) -> RenderableType:
    table = _lines()
    table.add_column(width=5, justify="right", style="dim")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for row in rows[-lines:]:
        kind = f"{row['event_type']}: " if row["event_type"] else ""
        table.add_row(str(row["id"]), Text(escaped(" ".join(f"{kind}{row['reason']}".split())), style="yellow"))
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


def _grid() -> Table:
    grid = Table.grid(padding=(0, 1), expand=True)
    for column in range(4):
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
