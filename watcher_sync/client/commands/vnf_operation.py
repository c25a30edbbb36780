# SPDX-License-Identifier: Apache-2.0
"""``vnf operation begin``, ``heartbeat``, ``end``, ``list``, ``show``: the right to change an instance for a while.

For shell scripts, and for people who have to see who has an instance or to free one. A program in Python has the
``with`` block of :meth:`watcher_sync.client.Client.operation`, which does the heartbeats.
"""

from __future__ import annotations

import argparse
import getpass
import os
import socket
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from watcher_sync.client.commands.base import Asking, Listing, Showing, add_paging, row, seq
from watcher_sync.client.commands.vnf import add_id
from watcher_sync.client.models import VnfOperation

_NAMES = tuple(field.name for field in msgspec.structs.fields(VnfOperation))


class VnfOperationBegin(Showing):
    """Take a VNF instance for an operation. Who holds it already is told in the error."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        add_id(parser)
        parser.add_argument("operation", metavar="OPERATION", help="what is done, such as SCALE or HEAL")
        parser.add_argument("--holder", metavar="NAME", help="who does it, shown to whoever comes second; you, else")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Names and values."""
        holder = parsed_args.holder or _me()
        return _NAMES, row(self.client.begin_operation(parsed_args.id, parsed_args.operation, holder), _NAMES)


class VnfOperationHeartbeat(Showing):
    """Say that an operation goes on; its time begins anew."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        _add_operation(parser)
        _add_token(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Names and values."""
        beaten = self.client.heartbeat(parsed_args.id, parsed_args.operation_id, token=parsed_args.token)
        return _NAMES, row(beaten, _NAMES)


class VnfOperationEnd(Asking):
    """End an operation; the VNF instance is free."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        _add_operation(parser)
        _add_token(parser)
        parser.add_argument("--failed", action="store_true", help="it has failed; COMPLETED, else")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """End it."""
        self.client.end_operation(
            parsed_args.id, parsed_args.operation_id, token=parsed_args.token, failed=parsed_args.failed
        )


class VnfOperationList(Listing):
    """List the operations on a VNF instance, oldest first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        add_id(parser)
        add_paging(parser, marker="where to begin: the token after which")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Columns and rows."""
        operations = self.client.operations(parsed_args.id, limit=parsed_args.limit, marker=parsed_args.marker)
        return _NAMES, [row(operation, _NAMES) for operation in operations]


class VnfOperationShow(Showing):
    """Show an operation, whatever became of it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        _add_operation(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Names and values."""
        return _NAMES, row(self.client.shown_operation(parsed_args.id, parsed_args.operation_id), _NAMES)


def _add_operation(parser: argparse.ArgumentParser) -> None:
    add_id(parser)
    parser.add_argument("operation_id", metavar="OPERATION-ID", help="id of the operation")


def _add_token(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--token", type=seq, metavar="N", help="its token; refuse, if it has another one")


def _me() -> str:
    """This person on this machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
