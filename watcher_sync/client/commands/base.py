# SPDX-License-Identifier: Apache-2.0
"""What all commands share: the client, errors in one line, the format of values; and the declaration of a noun.

A :class:`Noun` has the fields and the requests of one noun, and makes its commands ``list``, ``show`` and ``delete``.
A command that does more is a subclass, with the same noun.

Exit status: 0 done, 1 failed, 2 usage error, 130 interrupted by Ctrl-C. A usage error is a wrong command line, or a
request that the API refuses with 400, such as an unknown filter. The option ``--debug`` shows a traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar

import msgspec
from cliff import command, lister, show

from watcher_sync.client.client import Client
from watcher_sync.client.commands.arguments import FILTER, LIMIT, SORT, Argument, WrongUsage, marker
from watcher_sync.client.commands.cells import row, shown, title
from watcher_sync.client.commands.choosing import Choice
from watcher_sync.client.errors import BadRequest, ClientError, NotConfigured, NotFound, UnknownKind
from watcher_sync.client.terminal import guarded, plain

_WRONG_USAGE = (BadRequest, NotConfigured, UnknownKind, WrongUsage)

INTERRUPTED = 130

C = TypeVar("C", bound="Command")


class PartialFailure(ClientError):
    """The command did a part of its work; the rest failed."""


class Noun(msgspec.Struct, frozen=True, kw_only=True):
    """What the commands of one noun show and request. The requests take the client and the parsed arguments."""

    fields: tuple[str, ...] = ()
    """The fields of a document, which ``--filter`` and ``--sort`` name."""
    columns: tuple[str, ...] = ()
    """The columns of a list; empty: all fields."""
    table: tuple[str, ...] = ()
    """The columns of a list as a table, if they differ."""
    brief: tuple[str, ...] = ()
    """The fields of one document as a table without ``-c``; empty: all that it has."""
    cells: Mapping[str, Callable[[Any], Any]] = {}
    """Field -> what makes its cell, if it is not that of every field."""
    key: str = "id"
    """The field of a document that ``--marker`` names."""
    marker: str = "after this id"
    """Where a list with ``--marker`` begins."""
    every: Callable[[Client, argparse.Namespace], Iterable[Any]] | None = None
    """Requests the whole list."""
    pages: Callable[[Client, argparse.Namespace], Callable[..., Iterable[Any]]] | None = None
    """Returns what requests a list in pages, and takes ``limit`` and ``marker``."""
    one: Callable[[Client, argparse.Namespace], dict[str, Any] | msgspec.Struct] | None = None
    """Requests one document."""
    delete: Callable[[Client, argparse.Namespace, Any], object] | None = None
    """Deletes one of the ``chosen``, which it takes, too."""
    absent: str = ""
    """Says that there are none of the names or ids that follow; may have arguments of the command in braces."""

    def list_command(self, text: str, *arguments: Argument) -> type[ListCommand]:
        """Makes the command ``list``.

        :param text: its help.
        """
        return self._made(ListCommand, text, arguments)

    def show_command(self, text: str, *arguments: Argument) -> type[ShowCommand]:
        """Makes the command ``show``.

        :param text: its help.
        """
        return self._made(ShowCommand, text, arguments)

    def delete_command(self, text: str, *arguments: Argument) -> type[DeleteCommand]:
        """Makes the command ``delete``.

        :param text: its help.
        :param arguments: one of them is ``chosen``.
        """
        return self._made(DeleteCommand, text, arguments)

    def _made(self, base: type[C], text: str, arguments: tuple[Argument, ...]) -> type[C]:
        return type(base.__name__, (base,), {"__doc__": text, "noun": self, "arguments": arguments})


class Command(command.Command):
    """A command that sends requests to the API."""

    noun: ClassVar[Noun] = Noun()
    arguments: ClassVar[tuple[Argument, ...]] = ()
    """Its own, after those of every command of its class."""
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
        """Makes the parser of the arguments."""
        parser = super().get_parser(prog_name)
        one_line_errors(parser)
        for add in self._arguments():
            add(parser)
        return parser

    def _arguments(self) -> tuple[Argument, ...]:
        return self.arguments

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Runs the command, and returns the exit status."""
        with guarded(self.app) if self.is_guarded else contextlib.nullcontext():
            try:
                return super().run(parsed_args)
            except ClientError as exc:
                if getattr(self.app_args, "debug", False):
                    raise
                print(f"error: {plain(' '.join(str(exc).split()))}", file=sys.stderr)
                return 2 if isinstance(exc, _WRONG_USAGE) else 1
            except KeyboardInterrupt:
                return INTERRUPTED


class RowsCommand(Command, lister.Lister):
    """A command that prints rows.

    ``take_action`` returns the names of fields. The output has titles, which ``-c`` takes as well as the names.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        names = self.noun.columns or self.noun.fields
        if parsed_args.formatter == "table" and not parsed_args.columns:
            names = self.noun.table or names
        return names, (self._row(document, names) for document in self._documents(parsed_args))

    def _documents(self, parsed_args: argparse.Namespace) -> Iterable[Any]:
        raise NotImplementedError

    def _row(self, document: Any, names: Sequence[str]) -> tuple[Any, ...]:
        return row(document, names, self.noun.cells)

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

    def _arguments(self) -> tuple[Argument, ...]:
        return (FILTER, SORT, LIMIT, marker(self.noun.marker), *self.arguments)

    def _documents(self, parsed_args: argparse.Namespace) -> Iterable[Any]:
        choice = Choice(parsed_args, self.noun.fields, self.noun.key)
        if self.noun.every is not None:
            return list(choice.of_all(self.noun.every(self.client, parsed_args)))
        assert self.noun.pages is not None
        return list(choice.of_pages(self.noun.pages(self.client, parsed_args)))


class ShowCommand(Command, show.ShowOne):
    """A command that prints the names and values of one document."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        document = self._document(parsed_args)
        names = tuple(document if isinstance(document, dict) else document.__struct_fields__)
        if self.noun.brief and parsed_args.formatter == "table" and not parsed_args.columns:
            names = self.noun.brief
        return names, row(document, names, self.noun.cells)

    def _document(self, parsed_args: argparse.Namespace) -> dict[str, Any] | msgspec.Struct:
        """Requests what the command shows."""
        assert self.noun.one is not None
        return self.noun.one(self.client, parsed_args)

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Any]) -> int:
        """Prints the document."""
        _require_columns(parsed_args, column_names)
        values = tuple(shown(value, parsed_args.formatter) for value in data)
        return super().produce_output(parsed_args, column_names, values)


class DeleteCommand(Command):
    """A command that deletes what its argument ``chosen`` names, even if one of them does not exist."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Deletes them.

        :raises PartialFailure: when some do not exist.
        """
        assert self.noun.delete is not None
        missing = []
        for each in dict.fromkeys(parsed_args.chosen):
            try:
                self.noun.delete(self.client, parsed_args, each)
            except NotFound:
                missing.append(str(each))
        if missing:
            raise PartialFailure(f"{self.noun.absent.format(**vars(parsed_args))} {', '.join(missing)}")


def _require_columns(parsed_args: argparse.Namespace, names: Sequence[str]) -> None:
    """:raises WrongUsage: when ``-c`` names none of the columns."""
    wanted = {column.lower().strip().replace(" ", "_") for column in parsed_args.columns}
    if wanted and wanted.isdisjoint(name.lower().replace(" ", "_") for name in names):
        raise WrongUsage(f"there is no column {parsed_args.columns[0]!r}; the columns are {', '.join(names)}")


def one_line_errors(parser: argparse.ArgumentParser) -> None:
    """Makes a parser print an error in one line, without the usage."""
    parser.error = functools.partial(_refuse, parser)  # type: ignore[method-assign]


def _refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    parser.exit(2, f"error: {message}\n")
