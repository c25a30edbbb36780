# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-manage``: manages the database, the quarantine, recorded events and the positions of sources.

Each command names its function, so that its module is imported when the command runs, and no other one is.
"""

from __future__ import annotations

import argparse
import pkgutil
import sys
from typing import Any

from oslo_config import cfg

from watcher_sync.assembly import process
from watcher_sync.cmd.start import accept_interrupt
from watcher_sync.exceptions import ConfigError
from watcher_sync.extension import gather


def main() -> None:
    """Entry point."""
    accept_interrupt()
    process.prepare()
    sys.exit(process.run(_main))


def _main(argv: list[str]) -> int:
    command = cfg.SubCommandOpt("command", title="commands", handler=add_commands)
    conf = process.make_conf(argv, prog="watcher-sync-manage", cli_opts=[command], log_to_stderr_only_warnings=True)
    if conf.command.name is None:
        raise ConfigError("no command given; see watcher-sync-manage --help")
    status: int | None = pkgutil.resolve_name(conf.command.work)(conf)
    return status or 0


def add_commands(commands: Any) -> None:
    """Adds the parsers of all commands; the reference in the documentation is made of them, too.

    :param commands: the subparsers of :mod:`argparse`.
    """

    def add_command(name: str, work: str, text: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
        parser.set_defaults(work=work)
        return parser

    def add(name: str, work: str, text: str) -> argparse.ArgumentParser:
        return add_command(name, f"{__package__}.{work}", text)

    sync = add("db_sync", "database:db_sync", "Create or upgrade the database schema. It only adds.")
    sync.add_argument("--revision", default="head", help="target revision (default: head)")
    sync_mode = sync.add_mutually_exclusive_group()
    sync_mode.add_argument("--dry-run", action="store_true", help="print what would be done and change nothing")
    sync_mode.add_argument(
        "--contract",
        action="store_true",
        help="end an upgrade: no process of an older release may work on this schema any more",
    )

    add(
        "db_purge",
        "database:db_purge",
        "Purge rows that are older than [retention] allows.",
    )

    epoch = add("epoch", "database:renew_epoch", "Give the database another epoch; every reader then begins again.")
    epoch.add_argument(
        "action",
        choices=["renew"],
        help="renew: after the database was copied, or to publish on a log that ends in an epoch that it never had",
    )
    epoch.add_argument(
        "--after",
        default="",
        metavar="EPOCH",
        help="of a log that the database continues (default: none, it is a copy of another database)",
    )

    play = add(
        "replay", "events:replay", "Apply recorded events: oslo envelopes, CloudEvents, Kubernetes watch events."
    )
    play.add_argument("paths", nargs="+", metavar="PATH", help="a .json or .jsonl file, or a directory of such files")
    play.add_argument("--source", default="replay", help="source name for the events (default: replay)")
    _add_format(play)

    model = add("model", "model:model_dump", "Show the model.")
    model.add_argument("action", choices=["dump"], help="dump: one JSON object a line, sorted by id")
    model.add_argument("--kind", required=True, help="the entity kind, such as instance")

    tail = add("journal", "model:journal_tail", "Show the journal.")
    tail.add_argument("action", choices=["tail"], help="tail: one JSON object a line")
    tail.add_argument("--since", type=int, metavar="SEQ", help="show the rows after this seq")
    tail.add_argument("--limit", type=int, default=None, metavar="N", help="show at most N rows")

    quarantine = add("quarantine", "events:quarantine", "List, show, replay or drop events in quarantine.")
    quarantine.add_argument("action", choices=["list", "show", "replay", "drop"])
    quarantine.add_argument("ids", nargs="*", type=int, metavar="ID", help="event ids")
    quarantine.add_argument("--all", action="store_true", help="replay or drop all events")
    _add_format(quarantine)

    entity = add("entity", "model:entity", "Repair one entity; the repair has a row in the journal.")
    entity.add_argument(
        "action",
        choices=["reset", "undelete"],
        help="reset: set the versions back, so that the next event writes; undelete: restore what was deleted",
    )
    entity.add_argument("--kind", required=True, help="the entity kind, such as instance")
    entity.add_argument("--facet", help="reset: this facet only (default: all facets that events write)")
    entity.add_argument("id", metavar="ID", help="the entity's id")

    source = add(
        "source", "repairs:rewind_source", "Set the position from which a source reads when its engine starts."
    )
    source.add_argument("action", choices=["rewind"], help="rewind: read history again, from a place that --to names")
    source.add_argument("name_of_source", metavar="NAME", help="the source, one of [engine] enabled_sources")
    source.add_argument(
        "--to", required=True, metavar="PLACE", help="first, an offset or sequence, or an ISO 8601 time (UTC)"
    )

    removed = add(
        "forget-source", "repairs:forget_source", "Delete what a source left behind that is not configured any more."
    )
    removed.add_argument("name_of_source", metavar="NAME", help="the source, as source list of watcher-sync shows it")
    removed.add_argument("--dry-run", action="store_true", help="print what would be deleted and delete nothing")

    compare = add("reconcile", "reconciling:reconcile", "Compare the model with the live systems and repair the model.")
    compare.add_argument("scopes", nargs="*", metavar="SCOPE", help="a scope, such as a cluster (default: all scopes)")
    compare.add_argument("--dry-run", action="store_true", help="print the differences and write nothing")
    compare.add_argument(
        "--allow-deletes",
        action="store_true",
        help="disable the delete guard: delete missing entities beyond [reconcile] max_delete_percent",
    )
    _add_format(compare)

    handlers = add("handlers", "handlers:handlers", "Show the dispatch table.")
    _add_format(handlers)

    plugin = add("plugin", "scaffold:plugin", "Begin a plugin.")
    plugin.add_argument("action", choices=["scaffold"], help="scaffold: write a package of a plugin")
    plugin.add_argument("name_of_plugin", metavar="NAME", help="the name of the distribution")
    plugin.add_argument("--directory", metavar="DIR", help="the new folder (default: NAME)")
    for command in gather(lambda extension: extension.commands()):
        command.add_arguments(add_command(command.name, command.work, command.text))


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--format", choices=["json", "table"], default=None, help="output format")
