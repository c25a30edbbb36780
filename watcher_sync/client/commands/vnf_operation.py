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

from watcher_sync.client.client import Client
from watcher_sync.client.commands.arguments import argument, seq
from watcher_sync.client.commands.base import Command, Noun
from watcher_sync.client.commands.vnf import ID, SECRET, given_secret, required_secret
from watcher_sync.client.models import BegunOperation, VnfOperation

_OPERATION_ID = argument("operation_id", metavar="OPERATION-ID", help="id of the operation")
_TOKEN = argument("--token", type=seq, metavar="N", help="the expected token; refuse, if the operation has another one")

OPERATION = Noun(
    fields=VnfOperation.__struct_fields__,
    key="token",
    marker="after this token",
    pages=lambda client, args: functools.partial(client.operations, args.id),
    one=lambda client, args: client.shown_operation(args.id, args.operation_id),
)

VnfOperationList = OPERATION.list_command("List the operations on a VNF instance, oldest first.", ID)
VnfOperationShow = OPERATION.show_command("Show an operation, running or ended.", ID, _OPERATION_ID)


def _begun(client: Client, parsed_args: argparse.Namespace) -> BegunOperation:
    return client.begin_operation(parsed_args.id, parsed_args.operation, parsed_args.holder or _default_holder())


VnfOperationCreate = Noun(one=_begun).show_command(
    "Begin an operation on a VNF instance, and print its secret, once. If another runs, the error names its holder.",
    ID,
    argument("operation", metavar="OPERATION", help="the kind of work, such as SCALE or HEAL"),
    argument("--holder", metavar="NAME", help="name of the holder, shown to others (default: USER@HOST)"),
)
VnfOperationHeartbeat = Noun(
    one=lambda client, args: client.heartbeat(
        args.id, args.operation_id, secret=required_secret(args), token=args.token
    )
).show_command("Extend the lease of an operation by the full lease time.", ID, _OPERATION_ID, _TOKEN, SECRET)


class VnfOperationEnd(Command):
    """End an operation, which releases the VNF instance."""

    arguments = (
        ID,
        _OPERATION_ID,
        _TOKEN,
        SECRET,
        argument(
            "--state",
            choices=("COMPLETED", "ROLLED_BACK", "FAILED_TEMP", "FAILED"),
            default="COMPLETED",
            help="how it ends (default: COMPLETED)",
        ),
        argument(
            "--force",
            action="store_true",
            help="end the operation of another holder, without its secret; for managers and administrators",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Ends the operation."""
        self.client.end_operation(
            parsed_args.id,
            parsed_args.operation_id,
            secret=given_secret(parsed_args) if parsed_args.force else required_secret(parsed_args),
            token=parsed_args.token,
            state=parsed_args.state,
            force=parsed_args.force,
        )


def _default_holder() -> str:
    """The user's name and the host's name, as ``USER@HOST``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
