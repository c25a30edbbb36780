# SPDX-License-Identifier: Apache-2.0
"""``vnf operation create``, ``heartbeat``, ``end``, ``list``, ``show``: the operation lease of a VNF instance.

The commands are for shell scripts, and for operators who need to see or to end an operation. A program in Python uses
the ``with`` block of :meth:`watcher_sync.client.Client.operation`, which sends the heartbeats.

``create`` prints the secret of the operation. The other commands read it from a file or from the environment, because
every user of a machine can read command lines.
"""

from __future__ import annotations

import argparse
import functools
import getpass
import os
import socket
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from watcher_sync.client.commands.base import Command, ListCommand, ShowCommand, seq
from watcher_sync.client.commands.cells import row
from watcher_sync.client.commands.choosing import Choice
from watcher_sync.client.commands.operation_secret import add_secret, given_secret, required_secret
from watcher_sync.client.commands.vnf import add_id
from watcher_sync.client.models import BegunOperation, VnfOperation

_NAMES = tuple(field.name for field in msgspec.structs.fields(VnfOperation))
_BEGUN_NAMES = tuple(field.name for field in msgspec.structs.fields(BegunOperation))


class VnfOperationCreate(ShowCommand):
    """Begin an operation on a VNF instance, and print its secret, once. If another runs, the error names its holder."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_id(parser)
        parser.add_argument("operation", metavar="OPERATION", help="the kind of work, such as SCALE or HEAL")
        parser.add_argument("--holder", metavar="NAME", help="name of the holder, shown to others (default: USER@HOST)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        holder = parsed_args.holder or _default_holder()
        begun = self.client.begin_operation(parsed_args.id, parsed_args.operation, holder)
        return _BEGUN_NAMES, row(begun, _BEGUN_NAMES)


class VnfOperationHeartbeat(ShowCommand):
    """Extend the lease of an operation by the full lease time."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        _add_operation(parser)
        _add_token(parser)
        add_secret(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        secret = required_secret(parsed_args)
        extended = self.client.heartbeat(
            parsed_args.id, parsed_args.operation_id, secret=secret, token=parsed_args.token
        )
        return _NAMES, row(extended, _NAMES)


class VnfOperationEnd(Command):
    """End an operation, which releases the VNF instance."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        _add_operation(parser)
        _add_token(parser)
        add_secret(parser)
        parser.add_argument("--failed", action="store_true", help="end it FAILED (default: COMPLETED)")
        forced = "end the operation of another holder, without its secret; for administrators"
        parser.add_argument("--force", action="store_true", help=forced)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Ends the operation."""
        self.client.end_operation(
            parsed_args.id,
            parsed_args.operation_id,
            secret=given_secret(parsed_args) if parsed_args.force else required_secret(parsed_args),
            token=parsed_args.token,
            failed=parsed_args.failed,
            force=parsed_args.force,
        )


class VnfOperationList(ListCommand):
    """List the operations on a VNF instance, oldest first."""

    marker_help = "where to begin: after this token"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_id(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        choice = Choice(parsed_args, _NAMES, "token")
        operations = choice.of_pages(functools.partial(self.client.operations, parsed_args.id))
        return _NAMES, [row(operation, _NAMES) for operation in operations]


class VnfOperationShow(ShowCommand):
    """Show an operation, running or ended."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        _add_operation(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        return _NAMES, row(self.client.shown_operation(parsed_args.id, parsed_args.operation_id), _NAMES)


def _add_operation(parser: argparse.ArgumentParser) -> None:
    add_id(parser)
    parser.add_argument("operation_id", metavar="OPERATION-ID", help="id of the operation")


def _add_token(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--token", type=seq, metavar="N", help="the expected token; refuse, if the operation has another one"
    )


def _default_holder() -> str:
    """The user's name and the host's name, as ``USER@HOST``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
