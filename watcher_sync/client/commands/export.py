# SPDX-License-Identifier: Apache-2.0
"""``export``: the entities of a kind as JSON lines, CSV or Parquet, page by page.

A file appears when it is complete: the command writes to ``FILE.part`` first, and deletes it after a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import IO, Any

from watcher_sync.client.commands.arguments import (
    ALL_PROJECTS,
    AS_OF,
    FIELDS,
    FILTER,
    KIND,
    LIMIT,
    SORT,
    WrongUsage,
    argument,
    marker,
)
from watcher_sync.client.commands.base import Command
from watcher_sync.client.commands.entity import ENTITIES_MARKER, entities_query
from watcher_sync.client.errors import ClientError
from watcher_sync.client.export_formats import FORMATS, Column


class Export(Command):
    """Write the entities of a kind to a file or to stdout: as JSON lines, CSV or Parquet."""

    arguments = (
        KIND,
        argument("-f", "--format", choices=list(FORMATS), default="jsonl", help="format (default: jsonl)"),
        argument("-o", "--output", metavar="FILE", help="the file; an existing one is replaced (default: stdout)"),
        FILTER,
        SORT,
        FIELDS,
        LIMIT,
        marker(ENTITIES_MARKER),
        ALL_PROJECTS,
        AS_OF,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Writes the pages, and says how many entities there were."""
        if parsed_args.output is None and parsed_args.format == "parquet" and sys.stdout.isatty():
            raise WrongUsage("Parquet is no output for a terminal; name a file by -o")
        columns = self._columns(parsed_args)
        fields = [column.name for column in columns] if parsed_args.fields else None
        pages = self.client.entity_pages(parsed_args.kind, **entities_query(parsed_args, fields))
        count, seq = 0, None
        with _opened(parsed_args.output) as file:
            writer = FORMATS[parsed_args.format](file, columns)
            for page in pages:
                writer.write(page.entities)
                count += len(page.entities)
                seq = page.seq if seq is None else seq
            writer.close()
        if parsed_args.output is not None:
            print(f"{count} entities as of seq {seq}", file=sys.stderr)

    def _columns(self, parsed_args: argparse.Namespace) -> list[Column]:
        every = self.client.columns(parsed_args.kind)
        if not parsed_args.fields:
            return every
        known = {column.name: column for column in every}
        for name in parsed_args.fields:
            if name not in known:
                raise WrongUsage(f"there is no field {name!r}; there are {', '.join(known)}")
        return [known[name] for name in parsed_args.fields]


@contextlib.contextmanager
def _opened(path: str | None) -> Iterator[IO[bytes]]:
    """The file to write to; it gets its name at the end of the block.

    :raises ClientError: it cannot be written.
    """
    if path is None:
        with _binary_stdout() as stdout:
            yield stdout
        return
    part = f"{path}.part"
    try:
        with open(part, "wb") as file:
            yield file
        os.replace(part, path)
    except OSError as exc:
        raise ClientError(f"{exc.filename or path}: {exc.strerror}") from None
    finally:
        with contextlib.suppress(FileNotFoundError, PermissionError, NotADirectoryError):
            os.unlink(part)


class _Terminal(io.RawIOBase):
    """Writes bytes as text, so that a terminal gets no control characters."""

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """Write whole characters in UTF-8."""
        sys.stdout.write(bytes(data).decode("utf-8", "replace"))
        return len(data)


@contextlib.contextmanager
def _binary_stdout() -> Iterator[Any]:
    sys.stdout.flush()
    yield _Terminal() if sys.stdout.isatty() else sys.stdout.buffer
    sys.stdout.flush()
