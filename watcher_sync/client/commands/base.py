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
import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from cliff import columns, command, lister, show

from watcher_sync.client.client import Client
from watcher_sync.client.deprecated import renamed
from watcher_sync.client.errors import BadRequest, ClientError, NotConfigured, UnknownKind
from watcher_sync.client.formatting import delta_text, plain
from watcher_sync.client.terminal import guarded

_WRONG_USAGE = (BadRequest, NotConfigured, UnknownKind)

INTERRUPTED = 130


class WrongUsage(ClientError):
    """The command line is wrong in a way that argparse does not notice."""


class PartialFailure(ClientError):
    """The command did a part of its work; the rest failed."""


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


class ListCommand(Command, lister.Lister):
    """A command that prints rows."""


class ShowCommand(Command, show.ShowOne):
    """A command that prints the names and values of one document."""


if not TYPE_CHECKING:  # a type checker reports the old names
    __getattr__ = renamed(__name__, {"Asking": "Command", "NotAll": "PartialFailure"})


class Json(columns.FormattableColumn[Any]):
    """A list or an object: machine formats get the value, people get one line of JSON."""

    def human_readable(self) -> str:
        """Returns one line."""
        return plain(json.dumps(self._value, ensure_ascii=False))


class Delta(columns.FormattableColumn[Any]):
    """The delta of a change: machine formats get the value, people get ``field: old -> new``."""

    def human_readable(self) -> str:
        """Returns one line."""
        return plain(delta_text(self._value))


class PlainText(columns.FormattableColumn[str]):
    """A text of others: machine formats get the value, people get it without control characters."""

    def human_readable(self) -> str:
        """Returns the lines of the text."""
        return "\n".join(plain(line) for line in self._value.split("\n"))


def cell(value: Any) -> Any:
    """Converts a value for the formatters of cliff."""
    if isinstance(value, str) and not value.isprintable():
        return PlainText(value)
    if isinstance(value, (list, dict, tuple)):
        return Json(value)
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def row(document: msgspec.Struct | dict[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    """Returns the values of these members for the formatters of cliff."""
    if isinstance(document, dict):
        return tuple(cell(document.get(name)) for name in names)
    return tuple(
        Delta(msgspec.to_builtins(value)) if name == "delta" else cell(value)
        for name in names
        for value in (getattr(document, name),)
    )


def add_paging(parser: argparse.ArgumentParser, *, marker: str = "where to begin: after this id") -> None:
    """Adds ``--limit`` and ``--marker``."""
    parser.add_argument("--limit", type=at_least_1, metavar="N", help="the maximum number of entries (default: all)")
    parser.add_argument("--marker", metavar="MARKER", help=marker)


def add_all_projects(parser: argparse.ArgumentParser) -> None:
    """Adds ``--all-projects``."""
    parser.add_argument(
        "--all-projects",
        action="store_true",
        default=None,
        help="those of all projects; an error, if the policy does not allow it (default: all that you may see)",
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


def one_line_errors(parser: argparse.ArgumentParser) -> None:
    """Makes a parser print an error in one line, without the usage."""
    parser.error = functools.partial(_refuse, parser)  # type: ignore[method-assign]


def _refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    parser.exit(2, f"error: {message}\n")
