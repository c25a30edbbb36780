# SPDX-License-Identifier: Apache-2.0
"""The output of ``watcher-sync-manage``: JSON and tables on stdout.

A terminal gets no control characters. JSON in a file or a pipe keeps its characters.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from watcher_sync.escaping import escaped, escaped_lines

if TYPE_CHECKING:
    from watcher_sync.reconcile.base import Report


def print_json(document: Any) -> None:
    """Print a document as one line of JSON."""
    print_lines([document])


def print_lines(documents: Iterable[Any]) -> None:
    """Print each document as one line of JSON."""
    write = sys.stdout.buffer.write
    sys.stdout.flush()
    is_terminal = sys.stdout.isatty()
    for document in documents:
        line = msgspec.json.encode(document)
        # JSON has no C0 characters, but it may have C1 characters and bidirectional overrides.
        write((escaped(line.decode()).encode() if is_terminal else line) + b"\n")
    sys.stdout.buffer.flush()


def print_indented(document: Any) -> None:
    """Print a document as JSON over several lines."""
    text = msgspec.json.format(msgspec.json.encode(document)).decode()
    print(escaped_lines(text) if sys.stdout.isatty() else text)


def print_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Print rows under the names of their columns."""
    # Imported here: the import is slow, and most commands print JSON.
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(escaped(text) for text in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table, highlight=False, markup=False)


def print_result(result: dict[str, float], *, as_table: bool) -> None:
    """Print what a replay counted."""
    if as_table:
        print_table(("what", "count"), ((name, str(value)) for name, value in result.items()))
    else:
        print_json(result)


def print_report(report: Report) -> None:
    """Print the differences of one scope as a table; what failed goes to stderr."""
    columns = ("kind", "id", "field", "model", "live", "policy")
    rows = (
        (d.kind, d.entity_id, d.field, _shown(d.model_value), _shown(d.live_value), d.policy)
        for d in report.differences
    )
    print_table(columns, rows)
    print(
        f"{report.scope}: {len(report.differences)} differences, {report.written} written, {report.deleted} deleted, "
        f"{sum(report.refused_deletes.values())} deletions refused, "
        f"{report.requests} requests in {report.seconds:.2f} s"
    )
    for resource, why in report.failures.items():
        print(escaped(f"{report.scope}: {resource} could not be listed: {why}"), file=sys.stderr)
    for what, why in report.unknown.items():
        print(escaped(f"{report.scope}: unknown: {what} ({why})"), file=sys.stderr)
    for entity, why in report.refused_writes.items():
        print(escaped(f"{report.scope}: {entity} cannot be stored: {why}"), file=sys.stderr)


def _shown(value: Any) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()[:60]
