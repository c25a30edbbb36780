# SPDX-License-Identifier: Apache-2.0
"""What all commands share: the client, errors in one line, the format of values.

Exit status: 0 done, 1 failed, 2 usage error, 130 interrupted by Ctrl-C. A usage error is a wrong command line, or a
request that the API refuses with 400, such as an unknown filter. The option ``--debug`` shows a traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from cliff import command, lister, show

from watcher_sync.client.client import Client
from watcher_sync.client.commands.cells import shown, title
from watcher_sync.client.commands.errors import WrongUsage
from watcher_sync.client.errors import BadRequest, ClientError, NotConfigured, UnknownKind
from watcher_sync.client.filters import BadFilter, parse_filter
from watcher_sync.client.formatting import plain
from watcher_sync.client.terminal import guarded

_WRONG_USAGE = (BadRequest, NotConfigured, UnknownKind)

INTERRUPTED = 130


class Command(command.Command):
    """A command that sends requests to the API."""

    auth_required = True
    """OpenStackClient authenticates before it runs the command."""
    is_guarded = True
    """Whether a terminal gets no control characters; False for a command that draws, and escapes by itself."""
    app_dist_name = "watcher-sync"
    """If this is the application's distribution, cliff omits it from the help text."""

    @property
    def client(self) -> Client:
        """The client of the server that the options before the command name."""
        client: Client = self.app.client_manager.watcher_sync  # type: ignore[attr-defined]
        return client

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        one_line_errors(parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Runs the command, and returns the exit status."""
        with guarded(self.app) if self.is_guarded else contextlib.nullcontext():
            try:
                return super().run(parsed_args)
            except ClientError as exc:
                if getattr(self.app_args, "debug", False):
                    raise
                print(f"error: {plain(' '.join(str(exc).split()))}", file=sys.stderr)
                return 2 if isinstance(exc, (*_WRONG_USAGE, WrongUsage)) else 1
            except KeyboardInterrupt:
                return INTERRUPTED


class RowsCommand(Command, lister.Lister):
    """A command that prints rows.

    ``take_action`` returns the names of fields. The output has titles, which ``-c`` takes as well as the names.
    """

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        """Prints the rows."""
        titles = tuple(title(name) for name in column_names)
        named = dict(zip(column_names, titles, strict=True))
        parsed_args.columns = [named.get(column, column) for column in parsed_args.columns]
        parsed_args.sort_columns = [named.get(column, column) for column in parsed_args.sort_columns]
        _require_columns(parsed_args, titles)
        rows = (tuple(shown(value, parsed_args.formatter) for value in each) for each in data)
        return super().produce_output(parsed_args, titles, rows)


class ListCommand(RowsCommand):
    """A command that lists documents: it has the options of every list."""

    marker_help = "where to begin: after this id"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_filters(parser)
        add_sort(parser)
        add_limit(parser)
        parser.add_argument("--marker", metavar="MARKER", help=self.marker_help)
        return parser


class ShowCommand(Command, show.ShowOne):
    """A command that prints the names and values of one document."""

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Any]) -> int:
        """Prints the document."""
        _require_columns(parsed_args, column_names)
        values = tuple(shown(value, parsed_args.formatter) for value in data)
        return super().produce_output(parsed_args, column_names, values)


def add_sort(parser: argparse.ArgumentParser) -> None:
    """Adds ``--sort``."""
    parser.add_argument(
        "--sort",
        type=sort_key,
        metavar="FIELD[:asc|:desc]",
        help="sort by this field, ascending unless desc is given; --sort=-FIELD is FIELD:desc",
    )


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Adds ``--limit``."""
    parser.add_argument("--limit", type=at_least_1, metavar="N", help="the maximum number of entries (default: all)")


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Adds ``--filter``."""
    parser.add_argument(
        "--filter",
        dest="filters",
        action="append",
        type=_filter,
        default=[],
        metavar="FILTER",
        help="only entries that match: FIELD=VALUE, FIELD!=VALUE, FIELD>VALUE (also <, >=, <=), FIELD~PREFIX, 'FIELD "
        "in VALUE,...', 'FIELD not in VALUE,...', or FIELD[MEMBER]=VALUE for a label; may be repeated",
    )


def sort_key(text: str) -> str:
    """The type of ``--sort``: a field with its direction, in the form of the API (``-FIELD`` is descending)."""
    field, colon, direction = text.partition(":")
    if not field.lstrip("-") or (colon and direction not in ("asc", "desc")):
        raise argparse.ArgumentTypeError(f"must be FIELD, FIELD:asc or FIELD:desc, not {text!r}")
    return f"-{field.lstrip('-')}" if direction == "desc" else field


def _filter(text: str) -> str:
    try:
        parse_filter(text)
    except BadFilter as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None
    return text


def _require_columns(parsed_args: argparse.Namespace, names: Sequence[str]) -> None:
    """:raises WrongUsage: when ``-c`` names none of the columns."""
    wanted = {column.lower().strip().replace(" ", "_") for column in parsed_args.columns}
    if wanted and wanted.isdisjoint(name.lower().replace(" ", "_") for name in names):
        raise WrongUsage(f"there is no column {parsed_args.columns[0]!r}; the columns are {', '.join(names)}")


def add_all_projects(parser: argparse.ArgumentParser) -> None:
    """Adds ``--all-projects``."""
    parser.add_argument(
        "--all-projects",
        action="store_true",
        default=None,
        help="those of all projects; an error, if the policy does not allow it (default: all that you may see)",
    )


def add_as_of(parser: argparse.ArgumentParser) -> None:
    """Adds ``--as-of``."""
    parser.add_argument(
        "--as-of",
        type=seq_or_time,
        metavar="SEQ|TIME",
        help="as it was after the change with this seq, or at this time (ISO 8601, such as 2026-01-31T12:00; without "
        "an offset it is local time)",
    )


def at_least_1(text: str) -> int:
    """The type of an option: a number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


at_least_1.__name__ = "number"  # argparse uses the name in "invalid number value"


def seq(text: str) -> int:
    """The type of an option: a number of at least 0."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def seq_or_time(text: str) -> int | str:
    """The type of an option: a seq, or a time as ISO 8601 in UTC. A time without an offset is local."""
    if text.lstrip("-").isdecimal():
        return seq(text)
    try:
        return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC).isoformat()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"must be a seq or a time such as 2026-01-31T12:00, not {text!r}") from None


def one_line_errors(parser: argparse.ArgumentParser) -> None:
    """Makes a parser print an error in one line, without the usage."""
    parser.error = functools.partial(_refuse, parser)  # type: ignore[method-assign]


def _refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    parser.exit(2, f"error: {message}\n")
