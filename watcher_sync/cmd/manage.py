# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-manage``: manages the database, the quarantine, recorded events and the positions of sources."""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import sys
import time
from collections.abc import Callable
from typing import Any

from oslo_config import cfg

from watcher_sync.assembly import process
from watcher_sync.assembly.sources import ConfiguredGrants, source_scopes
from watcher_sync.assembly.store import load_kinds, open_store
from watcher_sync.cmd.output import print_indented, print_json, print_lines, print_report, print_result, print_table
from watcher_sync.cmd.start import accept_interrupt
from watcher_sync.commit import entity_repair
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.commit.replay import replay, replay_quarantined
from watcher_sync.dispatch import load_handlers
from watcher_sync.escaping import escaped
from watcher_sync.exceptions import ConfigError, ReconcileError, ReplayRefused, StorageError
from watcher_sync.model.kinds import Kind, Kinds
from watcher_sync.sources.replay import find_files, read_ahead, read_events
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.groups.engines import GONE, EngineView, list_engines
from watcher_sync.storage.schema import schema
from watcher_sync.storage.stored import retention
from watcher_sync.storage.stored.quarantine import Quarantine
from watcher_sync.storage.writing import journal
from watcher_sync.storage.writing.store import Store
from watcher_sync.webhooks.secrets import SecretBox, new_key
from watcher_sync.webhooks.subscriptions import Subscriptions

_PAGE = 1000


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
    work: Callable[[cfg.ConfigOpts], int | None] = conf.command.work
    return work(conf) or 0


def add_commands(commands: Any) -> None:
    """Adds the parsers of all commands; the reference in the documentation is made of them, too.

    :param commands: the subparsers of :mod:`argparse`.
    """

    def add(name: str, work: Callable[[cfg.ConfigOpts], int | None], text: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
        parser.set_defaults(work=work)
        return parser

    sync = add("db_sync", _db_sync, "Create or upgrade the database schema. It only adds.")
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
        _db_purge,
        "Purge rows that are older than [retention] allows.",
    )

    play = add("replay", _replay, "Apply recorded events: oslo envelopes, CloudEvents, Kubernetes watch events.")
    play.add_argument("paths", nargs="+", metavar="PATH", help="a .json or .jsonl file, or a directory of such files")
    play.add_argument("--source", default="replay", help="source name for the events (default: replay)")
    _add_format(play)

    model = add("model", _model_dump, "Show the model.")
    model.add_argument("action", choices=["dump"], help="dump: one JSON object a line, sorted by id")
    model.add_argument("--kind", required=True, help="the entity kind, such as instance")

    tail = add("journal", _journal_tail, "Show the journal.")
    tail.add_argument("action", choices=["tail"], help="tail: one JSON object a line")
    tail.add_argument("--since", type=int, metavar="SEQ", help="show the rows after this seq")
    tail.add_argument("--limit", type=int, default=None, metavar="N", help="show at most N rows")

    quarantine = add("quarantine", _quarantine, "List, show, replay or drop events in quarantine.")
    quarantine.add_argument("action", choices=["list", "show", "replay", "drop"])
    quarantine.add_argument("ids", nargs="*", type=int, metavar="ID", help="event ids")
    quarantine.add_argument("--all", action="store_true", help="replay or drop all events")
    _add_format(quarantine)

    entity = add("entity", _entity, "Repair one entity; the repair has a row in the journal.")
    entity.add_argument(
        "action",
        choices=["reset", "undelete"],
        help="reset: set the versions back, so that the next event writes; undelete: restore what was deleted",
    )
    entity.add_argument("--kind", required=True, help="the entity kind, such as instance")
    entity.add_argument("--facet", help="reset: this facet only (default: all facets that events write)")
    entity.add_argument("id", metavar="ID", help="the entity's id")

    subscription = add("subscription", _subscription, "Manage the keys that encrypt the secrets of subscriptions.")
    subscription.add_argument(
        "action",
        choices=["key", "reencrypt"],
        help="key: print a new key for [outlet_webhook] secret_keys; reencrypt: encrypt all secrets with the first key",
    )

    source = add("source", _source, "Set the position from which a source reads when its engine starts.")
    source.add_argument("action", choices=["rewind"], help="rewind: read history again, from a place that --to names")
    source.add_argument("name_of_source", metavar="NAME", help="the source, one of [engine] enabled_sources")
    source.add_argument(
        "--to", required=True, metavar="PLACE", help="first, an offset or sequence, or an ISO 8601 time (UTC)"
    )

    removed = add("forget-source", _forget_source, "Delete what a source left behind that is not configured any more.")
    removed.add_argument("name_of_source", metavar="NAME", help="the source, as source list of watcher-sync shows it")
    removed.add_argument("--dry-run", action="store_true", help="print what would be deleted and delete nothing")

    compare = add("reconcile", _reconcile, "Compare the model with the live systems and repair the model.")
    compare.add_argument("scopes", nargs="*", metavar="SCOPE", help="a scope, such as a cluster (default: all scopes)")
    compare.add_argument("--dry-run", action="store_true", help="print the differences and write nothing")
    compare.add_argument(
        "--allow-deletes",
        action="store_true",
        help="disable the delete guard: delete missing entities beyond [reconcile] max_delete_percent",
    )
    _add_format(compare)

    handlers = add("handlers", _handlers, "Show the dispatch table.")
    _add_format(handlers)


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--format", choices=["json", "table"], default=None, help="output format")


def _db_sync(conf: cfg.ConfigOpts) -> None:
    store = open_store(conf, checked=False, limited=False)
    if conf.command.dry_run:
        for line in schema.plan(store.database, store.tables):
            print(line)
    elif conf.command.contract:
        print(f"Releases before revision {schema.contract(store.database, store.tables)} are refused from now on.")
        _print_older_engines(conf, store)
    else:
        revision = schema.upgrade(store.database, store.tables, conf.command.revision, lambda: _print_lock(conf, store))
        print(f"The schema is at revision {revision}.")
        _print_older_engines(conf, store)


def _print_lock(conf: cfg.ConfigOpts, store: Store) -> None:
    """Print what may hold the lock that ``db_sync`` waits for."""
    try:
        found = ", ".join(f"{each.host}:{each.pid} of release {each.release}" for each in _engines(conf, store))
    except StorageError:  # a schema before that of the engines
        found = ""
    print(f"db_sync waits for a lock of another process. Engines at work: {found or 'none'}.", file=sys.stderr)


def _print_older_engines(conf: cfg.ConfigOpts, store: Store) -> None:
    release = importlib.metadata.version("watcher-sync")
    for each in _engines(conf, store):
        if each.release not in (release, None):
            print(
                f"The engine {each.host}:{each.pid} of release {each.release} is at work: restart it with this release."
            )


def _engines(conf: cfg.ConfigOpts, store: Store) -> list[EngineView]:
    found = list_engines(store.database, gone_after=float(conf.monitoring.stale_after))
    return [each for each in found if each.state != GONE]


def _db_purge(conf: cfg.ConfigOpts) -> None:
    store = open_store(conf)
    now = store.time.read()
    if now is None:
        raise ConfigError(f"nothing is deleted by age: {store.time.doubt}")
    purged = retention.purge(store.database, store.tables, retention.Retention.from_conf(conf.retention), now)
    print_json(purged)


def _replay(conf: cfg.ConfigOpts) -> None:
    paths, source = find_files(conf.command.paths), conf.command.source
    store = open_store(conf)
    events = read_ahead(lambda: read_events(paths, source))
    settings = conf.engine
    result = replay(
        store,
        load_handlers(conf),
        events,
        batch_size=settings.batch_size,
        limits=settings,
    )
    print_result(result, as_table=conf.command.format == "table")


def _model_dump(conf: cfg.ConfigOpts) -> None:
    _kind_of(load_kinds(), conf.command.kind)  # before the database is asked
    store = open_store(conf)
    print_lines(store.load().snapshot().dump(_kind_of(store.kinds, conf.command.kind).name))


def _journal_tail(conf: cfg.ConfigOpts) -> None:
    store = open_store(conf)
    since, limit = conf.command.since, conf.command.limit
    if limit is not None and limit < 0:
        raise ConfigError("--limit must not be negative")
    with translated(), store.database.connect() as connection:
        if since is None:
            since = max(journal.read_head(connection, store.tables) - (limit if limit is not None else 20), 0)
        while limit is None or limit > 0:
            rows = journal.read_since(connection, store.tables, since, min(limit or _PAGE, _PAGE))
            if not rows:
                return
            print_lines(row.document() for row in rows)
            since = rows[-1].seq
            limit = None if limit is None else limit - len(rows)


def _quarantine(conf: cfg.ConfigOpts) -> None:
    store = open_store(conf)
    quarantine = Quarantine(store)
    action, ids = conf.command.action, conf.command.ids
    if action in ("replay", "drop") and bool(ids) == conf.command.all:
        raise ConfigError(f"quarantine {action}: give event ids, or --all")
    if action == "show" and not ids:
        raise ConfigError("quarantine show: give an event id")
    if action == "list":
        _list_quarantine(quarantine, as_table=conf.command.format == "table")
    elif action == "show":
        for row_id in ids:
            print_indented(quarantine.show(row_id))
    elif action == "replay":
        chosen = quarantine.ids() if conf.command.all else ids
        settings = conf.engine
        result = replay_quarantined(
            store,
            load_handlers(conf),
            quarantine.events(chosen),
            grants=ConfiguredGrants(conf),
            batch_size=settings.batch_size,
            limits=settings,
        )
        print_result(result, as_table=conf.command.format == "table")
        refused = quarantine.reasons_of(chosen)
        for row_id, reason in refused.items():
            print(escaped(f"{row_id}: {reason}"), file=sys.stderr)
        if refused:
            raise ReplayRefused(f"{len(refused)} events are refused again and stay in quarantine")
    else:
        chosen = quarantine.ids() if conf.command.all else ids
        for start in range(0, len(chosen), _PAGE):
            quarantine.drop(chosen[start : start + _PAGE])
        print(f"Dropped {len(chosen)} events.")


def _entity(conf: cfg.ConfigOpts) -> None:
    kind = _kind_of(load_kinds(), conf.command.kind)
    action, entity_id, facet = conf.command.action, conf.command.id, conf.command.facet
    if facet is not None and action == "undelete":
        raise ConfigError("entity undelete: --facet is for entity reset only")
    if facet is not None and facet not in kind.facets:
        raise ConfigError(f"--facet {facet}: {kind.name} has no such facet; the facets are {', '.join(kind.facets)}")
    store = open_store(conf)
    _kind_of(store.kinds, kind.name)
    repair = entity_repair.undelete if action == "undelete" else functools.partial(entity_repair.reset, facet=facet)
    print_json(repair(_writer(conf, store), kind, entity_id))


def _writer(conf: cfg.ConfigOpts, store: Store) -> DirectWriter:
    return DirectWriter(store, load_handlers(conf), limits=conf.engine)


def _forget_source(conf: cfg.ConfigOpts) -> None:
    # Not at the top, for the start time alone: few commands import the engine.
    from watcher_sync.cmd.repairs import forget

    store = open_store(conf)
    writer = _writer(conf, store)
    configured = source_scopes(conf, load_handlers(conf))
    print_json(forget(conf, configured, store, writer, conf.command.name_of_source, dry_run=conf.command.dry_run))


def _source(conf: cfg.ConfigOpts) -> None:
    from watcher_sync.cmd.repairs import rewind

    rewind(conf, open_store(conf), conf.command.name_of_source, conf.command.to)
    print(f"The source {conf.command.name_of_source} reads from {conf.command.to} when its engine starts.")


def _subscription(conf: cfg.ConfigOpts) -> None:
    if conf.command.action == "key":
        print(new_key())
        return
    box = SecretBox(conf.outlet_webhook.secret_keys)
    if not box.is_usable:
        raise ConfigError("[outlet_webhook] secret_keys is not set")
    store = open_store(conf)
    count = Subscriptions(store.database, store.tables).reencrypt(box.renew)
    print(f"Encrypted the secrets of {count} subscriptions.")


def _kind_of(kinds: Kinds, name: str) -> Kind:
    if name not in kinds:
        raise ConfigError(f"--kind {name}: no such kind; the kinds are {', '.join(sorted(kinds))}")
    return kinds[name]


def _reconcile(conf: cfg.ConfigOpts) -> int:
    """Print a report per scope; 1 if a comparison was incomplete or the delete guard refused deletions."""
    # Not at the top, for the start time alone: the import takes 0.3 s of CPU time, and no other command needs it.
    from watcher_sync.assembly.reconcile import make_reconcilers

    wanted, failed = conf.command.scopes, False
    store = open_store(conf)
    known = {scope: one for one in make_reconcilers(conf, store, load_handlers(conf)) for scope in one.scopes()}
    for name in wanted:
        if name not in known:
            raise ConfigError(f"{name}: no such scope; the scopes are {', '.join(sorted(known)) or 'none'}")
    for scope in wanted or sorted(known):
        timeout = known[scope].timeout(scope)
        deadline = time.monotonic() + (conf.reconcile.timeout if timeout is None else timeout)
        try:
            report = known[scope].run(
                scope, dry_run=conf.command.dry_run, allow_deletes=conf.command.allow_deletes, deadline=deadline
            )
        except ReconcileError as exc:
            print(escaped(str(exc)), file=sys.stderr)
            failed = True
            continue
        failed |= not report.complete or bool(report.refused_deletes) or bool(report.refused_writes)
        if conf.command.format == "table":
            print_report(report)
        else:
            print_json(report)
        for kind in report.refused_deletes:
            print(
                f"{report.scope}: the delete guard refused to delete {report.refused_share(kind)} entities of the kind "
                f"{kind}, more than [reconcile] max_delete_percent; --allow-deletes confirms them",
                file=sys.stderr,
            )
    return int(failed)


def _list_quarantine(quarantine: Quarantine, *, as_table: bool) -> None:
    rows: list[dict[str, Any]] = []
    after = 0
    while page := quarantine.page(after=after, limit=_PAGE):
        after = page[-1]["id"]
        if as_table:
            rows += page
        else:
            print_lines(page)
    if as_table:
        columns = ("id", "received_at", "source", "event_type", "deliveries", "reason")
        print_table(columns, ([str(row[c]) for c in columns] for row in rows))


def _handlers(conf: cfg.ConfigOpts) -> None:
    dispatcher = load_handlers(conf)
    columns = ("pattern", "handler", "plugin")
    entries = [(e.pattern, e.handler, e.plugin) for e in dispatcher.table()]
    if conf.command.format == "json":
        print_json([dict(zip(columns, entry, strict=True)) for entry in entries])
    else:
        print_table(columns, entries)
    for failure in dispatcher.failures:
        print(escaped(f"failed to load: {failure.plugin}: {failure.reason}"), file=sys.stderr)
