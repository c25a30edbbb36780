# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-manage``: manages the database, the quarantine, recorded events and the positions of sources."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from oslo_config import cfg
from rich import box
from rich.console import Console
from rich.table import Table

from watcher_sync.assembly import process
from watcher_sync.assembly.grants import ConfiguredGrants
from watcher_sync.assembly.store import load_kinds, open_store
from watcher_sync.cmd import start_signals
from watcher_sync.commit import entity_repair
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.commit.replay import replay, replay_quarantined
from watcher_sync.dispatch import load_handlers
from watcher_sync.escaping import escaped, escaped_lines
from watcher_sync.exceptions import ConfigError, ReconcileError
from watcher_sync.model.kinds import Kind, Kinds
from watcher_sync.sources.prefetch import read_ahead
from watcher_sync.sources.replay import find_files, read_events
from watcher_sync.storage import journal, retention, schema
from watcher_sync.storage.database import translated
from watcher_sync.storage.quarantine import Quarantine
from watcher_sync.storage.subscription_secrets import SecretBox, new_key
from watcher_sync.storage.subscriptions import Subscriptions

if TYPE_CHECKING:
    from watcher_sync.reconcile.base import Report

_PAGE = 1000


def main() -> None:
    """Entry point."""
    start_signals.accept_interrupt()
    process.prepare()
    sys.exit(process.run(_main))


def _main(argv: list[str]) -> int:
    command = cfg.SubCommandOpt("command", title="commands", handler=_add_commands)
    conf = process.make_conf(argv, prog="watcher-sync-manage", cli_opts=[command], log_to_stderr_only_warnings=True)
    if conf.command.name is None:
        raise ConfigError("no command given; see watcher-sync-manage --help")
    work: Callable[[cfg.ConfigOpts], int | None] = conf.command.work
    return work(conf) or 0


def _add_commands(commands: Any) -> None:
    def add(name: str, work: Callable[[cfg.ConfigOpts], int | None], text: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
        parser.set_defaults(work=work)
        return parser

    sync = add("db_sync", _db_sync, "Create or upgrade the database schema.")
    sync.add_argument("--revision", default="head", help="target revision (default: head)")

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
    source.add_argument("--to", required=True, metavar="PLACE", help="first, an offset, or an ISO 8601 time (UTC)")

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
    revision = schema.upgrade(store.database, store.tables, conf.command.revision)
    print(f"The schema is at revision {revision}.")


def _db_purge(conf: cfg.ConfigOpts) -> None:
    store = open_store(conf)
    now = store.time.read()
    if now is None:
        raise ConfigError(f"nothing is deleted by age: {store.time.doubt}")
    purged = retention.purge(store.database, store.tables, retention.Retention.from_conf(conf.retention), now)
    _print_json(purged)


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
        parked_ttl=settings.parked_ttl,
        max_clock_skew=settings.max_clock_skew,
    )
    _print_result(conf, result)


def _model_dump(conf: cfg.ConfigOpts) -> None:
    kinds = load_kinds()
    kind = _kind_of(kinds, conf.command.kind)
    _print_lines(open_store(conf, kinds).load().snapshot().dump(kind.name))


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
            _print_lines(row.document() for row in rows)
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
            text = msgspec.json.format(msgspec.json.encode(quarantine.show(row_id))).decode()
            print(escaped_lines(text) if sys.stdout.isatty() else text)
    elif action == "replay":
        events = quarantine.events(None if conf.command.all else ids)
        settings = conf.engine
        result = replay_quarantined(
            store,
            load_handlers(conf),
            events,
            grants=ConfiguredGrants(conf),
            batch_size=settings.batch_size,
            parked_ttl=settings.parked_ttl,
            max_clock_skew=settings.max_clock_skew,
        )
        _print_result(conf, result)
    else:
        chosen = [row_id for row_id, _ in quarantine.events(None)] if conf.command.all else ids
        for start in range(0, len(chosen), _PAGE):
            quarantine.drop(chosen[start : start + _PAGE])
        print(f"Dropped {len(chosen)} events.")


def _entity(conf: cfg.ConfigOpts) -> None:
    kinds = load_kinds()
    kind = _kind_of(kinds, conf.command.kind)
    action, entity_id, facet = conf.command.action, conf.command.id, conf.command.facet
    if facet is not None and action == "undelete":
        raise ConfigError("entity undelete: --facet is for entity reset only")
    if facet is not None and facet not in kind.facets:
        raise ConfigError(f"--facet {facet}: {kind.name} has no such facet; the facets are {', '.join(kind.facets)}")
    settings = conf.engine
    writer = DirectWriter(
        open_store(conf, kinds),
        load_handlers(conf),
        lambda: float(settings.parked_ttl),
        max_clock_skew=lambda: float(settings.max_clock_skew),
    )
    if action == "reset":
        _print_json(entity_repair.reset(writer, kind, entity_id, facet))
    else:
        _print_json(entity_repair.undelete(writer, kind, entity_id))


def _source(conf: cfg.ConfigOpts) -> None:
    # Not at the top, for the start time alone: no other command imports the drivers.
    from watcher_sync.assembly.rewind import rewind

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
            _print_report(report)
        else:
            _print_json(report)
        for kind in report.refused_deletes:
            print(
                f"{report.scope}: the delete guard refused to delete {report.refused_share(kind)} entities of the kind "
                f"{kind}, more than [reconcile] max_delete_percent; --allow-deletes confirms them",
                file=sys.stderr,
            )
    return int(failed)


def _print_report(report: Report) -> None:
    columns = ("kind", "id", "field", "model", "live", "policy")
    rows = (
        (d.kind, d.entity_id, d.field, _shown(d.model_value), _shown(d.live_value), d.policy)
        for d in report.differences
    )
    _print_table(columns, rows)
    print(
        f"{report.scope}: {len(report.differences)} differences, {report.written} written, {report.deleted} deleted, "
        f"{sum(report.refused_deletes.values())} deletions refused, "
        f"{report.requests} requests in {report.seconds:.2f} s"
    )
    for resource, why in report.failures.items():
        print(escaped(f"{report.scope}: {resource} could not be listed: {why}"), file=sys.stderr)
    for entity, why in report.refused_writes.items():
        print(escaped(f"{report.scope}: {entity} cannot be stored: {why}"), file=sys.stderr)


def _shown(value: Any) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()[:60]


def _list_quarantine(quarantine: Quarantine, *, as_table: bool) -> None:
    rows: list[dict[str, Any]] = []
    after = 0
    while page := quarantine.page(after=after, limit=_PAGE):
        after = page[-1]["id"]
        if as_table:
            rows += page
        else:
            _print_lines(page)
    if as_table:
        columns = ("id", "received_at", "source", "event_type", "deliveries", "reason")
        _print_table(columns, ([str(row[c]) for c in columns] for row in rows))


def _handlers(conf: cfg.ConfigOpts) -> None:
    dispatcher = load_handlers(conf)
    columns = ("pattern", "handler", "plugin")
    entries = [(e.pattern, e.handler, e.plugin) for e in dispatcher.table()]
    if conf.command.format == "json":
        _print_json([dict(zip(columns, entry, strict=True)) for entry in entries])
    else:
        _print_table(columns, entries)
    for failure in dispatcher.failures:
        print(escaped(f"failed to load: {failure.plugin}: {failure.reason}"), file=sys.stderr)


def _print_result(conf: cfg.ConfigOpts, result: dict[str, float]) -> None:
    if conf.command.format == "table":
        _print_table(("what", "count"), ((name, str(value)) for name, value in result.items()))
    else:
        _print_json(result)


def _print_json(document: Any) -> None:
    _print_lines([document])


def _print_lines(documents: Iterable[Any]) -> None:
    write = sys.stdout.buffer.write
    sys.stdout.flush()
    is_terminal = sys.stdout.isatty()
    for document in documents:
        line = msgspec.json.encode(document)
        # JSON has no C0 characters, but it may have C1 characters and bidirectional overrides.
        write((escaped(line.decode()).encode() if is_terminal else line) + b"\n")
    sys.stdout.buffer.flush()


def _print_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    table = Table(*columns, box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(escaped(text) for text in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table, highlight=False, markup=False)
