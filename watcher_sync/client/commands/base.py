# SPDX-License-Identifier: Apache-2.0
"""What all commands share: the client, errors in one line, and how values look.

Exit status: 0 done, 1 failed, 2 for what was asked wrongly, be it the command line or a request that the API
refuses as wrong (400), such as a filter that there is not. ``--debug`` shows the traceback instead.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

import msgspec
from cliff import columns, command, lister, show

from watcher_sync.client.client import Client
from watcher_sync.client.errors import BadRequest, ClientError, NotConfigured, UnknownKind
from watcher_sync.client.formatting import delta_text

_WRONG_USAGE = (BadRequest, NotConfigured, UnknownKind)

INTERRUPTED = 130


class WrongUsage(ClientError):
    """The command line is wrong in a way that only the command can tell."""


class PartialFailure(ClientError):
    """Some of what was asked for could not be done; the rest was."""


class Asking(command.Command):
    """A command that asks the API."""

    auth_required = True
    """For OpenStackClient."""
    app_dist_name = "watcher-sync"
    """No help text has to say that this distribution provides it."""

    @property
    def client(self) -> Client:
        """The client of the server that the options before the command name."""
        client: Client = self.app.client_manager.watcher_sync  # type: ignore[attr-defined]
        return client

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        one_line_errors(parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run it; the exit status."""
        try:
            return super().run(parsed_args)
        except ClientError as exc:
            if getattr(self.app_args, "debug", False):
                raise
            print(f"error: {' '.join(str(exc).split())}", file=sys.stderr)
            return 2 if isinstance(exc, (*_WRONG_USAGE, WrongUsage)) else 1
        except KeyboardInterrupt:
            return INTERRUPTED


class Listing(Asking, lister.Lister):
    """A command that prints rows."""


class Showing(Asking, show.ShowOne):
    """A command that prints one thing."""


class Json(columns.FormattableColumn[Any]):
    """A list or an object: itself to machines, one line of JSON to people."""

    def human_readable(self) -> str:
        """One line."""
        return json.dumps(self._value, ensure_ascii=False)


class Delta(columns.FormattableColumn[Any]):
    """What a change changed: itself to machines, ``field: old -> new`` to people."""

    def human_readable(self) -> str:
        """One line."""
        return delta_text(self._value)


def cell(value: Any) -> Any:
    """A value as cliff's formatters take it."""
    if isinstance(value, (list, dict, tuple)):
        return Json(value)
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def row(document: msgspec.Struct | dict[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    """The values of these members."""
    if isinstance(document, dict):
        return tuple(cell(document.get(name)) for name in names)
    return tuple(
        Delta(msgspec.to_builtins(value)) if name == "delta" else cell(value)
        for name in names
        for value in (getattr(document, name),)
    )


def add_paging(parser: argparse.ArgumentParser, *, marker: str = "where to begin: the id after which") -> None:
    """``--limit`` and ``--marker``."""
    parser.add_argument("--limit", type=at_least_1, metavar="N", help="the most entries; all unless given")
    parser.add_argument("--marker", metavar="MARKER", help=marker)


def at_least_1(text: str) -> int:
    """An option's type."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


at_least_1.__name__ = "number"  # what argparse calls it where it is none


def seq(text: str) -> int:
    """An option's type."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def one_line_errors(parser: argparse.ArgumentParser) -> None:
    """Have a parser say what is wrong in one line, without the usage."""
    parser.error = functools.partial(_refuse, parser)  # type: ignore[method-assign]


def _refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    parser.exit(2, f"error: {message}\n")
