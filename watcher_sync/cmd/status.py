# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-status upgrade check``: what would stand in the way of a start with this release.

It changes nothing and takes no event from anybody. The exit status is that of every OpenStack upgrade check:
0 all is well, 1 something deserves a look, 2 something has to be mended first, 255 a check itself failed;
2 also for a wrong configuration, with one line on stderr.

What Nova hides cannot be asked of Nova from here. It shows in the journal: without ``notify_on_state_change``
no instance.update ever comes, and without versioned notifications nothing comes at all.
"""

from __future__ import annotations

import datetime
import logging
import sys
import threading
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from oslo_upgradecheck import upgradecheck
from oslo_upgradecheck.upgradecheck import Code, Result

from watcher_sync.assembly import process
from watcher_sync.assembly.sources import source_makers
from watcher_sync.assembly.store import open_store
from watcher_sync.conf import opts
from watcher_sync.exceptions import ConfigError, SchemaMissing, SourceError, StorageError, WatcherSyncError
from watcher_sync.sources.base import Source
from watcher_sync.storage import schema
from watcher_sync.storage.database import translated
from watcher_sync.storage.journal import first_since
from watcher_sync.storage.store import Store

NOVA_DRIVER = "oslo_messaging"
"""Nova's notifications come through this driver."""

_FIX_ALL = (
    "Nova has to be told to send them: [notifications] notification_format = versioned (or both) and"
    " [oslo_messaging_notifications] driver = messagingv2, on the API, conductor and compute hosts"
)
_FIX_UPDATES = "set [notifications] notify_on_state_change = vm_and_task_state on Nova's hosts"


class Checks(upgradecheck.UpgradeCommands):
    """The checks, over one configuration."""

    def __init__(self, conf: cfg.ConfigOpts, *, timeout: float = 10.0) -> None:
        """:param timeout: seconds that one source is given to be reached."""
        self._conf = conf
        self._timeout = timeout
        self._store: Store | None = None

    def database(self) -> Result:
        """The database answers and has the schema of this release."""
        try:
            store = open_store(self._conf, checked=False)
            schema.check(store.database, store.tables)
        except (SchemaMissing, ConfigError) as exc:
            return Result(Code.FAILURE, str(exc))
        except StorageError as exc:
            return Result(Code.FAILURE, f"The database cannot be reached: {exc}")
        self._store = store
        return Result(Code.SUCCESS)

    def sources(self) -> Result:
        """Every enabled source is configured well and can be reached."""
        names = self._conf.engine.enabled_sources
        if not names:
            return Result(Code.WARNING, "[engine] enabled_sources is empty: nothing would be listened to.")
        try:
            makers = source_makers(self._conf, None)
        except WatcherSyncError as exc:
            return Result(Code.FAILURE, str(exc))
        troubles, untold = [], []
        for name, make in makers.items():
            try:
                _reach(make(), self._timeout)
            except SourceError as exc:
                troubles.append(f"{name}: {exc}")
            except NotImplementedError:
                untold.append(name)
        if troubles:
            return Result(Code.FAILURE, "Not to be reached: " + "; ".join(troubles))
        return Result(Code.SUCCESS, f"The driver cannot tell: {', '.join(untold)}" if untold else None)

    def nova(self) -> Result:
        """Nova sends what it hides by default, as far as the journal shows it."""
        conf = self._conf
        names = []
        for name in conf.engine.enabled_sources:
            opts.register_source(conf, name, [])
            if conf[f"source_{name}"].driver == NOVA_DRIVER:
                names.append(name)
        if not names:
            return Result(Code.SUCCESS, "No enabled source listens to Nova.")
        if self._store is None:
            return Result(Code.WARNING, "Cannot be seen without the database.")
        hours = conf.command.hours
        since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=hours)
        warnings = []
        try:
            for name in names:
                if not _journaled(self._store, name, since):
                    warnings.append(f"{name}: no notification changed anything within {hours:g} h; {_FIX_ALL}.")
                elif not _journaled(self._store, name, since, "instance.update"):
                    warnings.append(f"{name}: no instance.update within {hours:g} h; {_FIX_UPDATES}.")
        except StorageError as exc:
            return Result(Code.WARNING, f"The journal cannot be read: {exc}")
        return Result(Code.WARNING, " ".join(warnings)) if warnings else Result(Code.SUCCESS)

    _upgrade_checks: Any = (
        ("Database schema", database),
        ("Sources", sources),
        ("Nova's notifications", nova),
    )


def main() -> None:
    """Entry point."""
    process.prepare()
    sys.exit(process.run(_main))


def _main(argv: list[str]) -> int:
    command = cfg.SubCommandOpt("command", title="commands", handler=_add_commands)
    conf = process.make_conf(argv, prog="watcher-sync-status", cli_opts=[command], log_to_stderr_only_warnings=True)
    if conf.command.name is None:
        raise ConfigError("no command given; see watcher-sync-status --help")
    # What a driver logs of a failed connection, the check says; the output has to stay readable by a program.
    logging.getLogger("oslo.messaging").setLevel(logging.CRITICAL)
    upgradecheck.CONF = conf  # where the library looks for --json
    return int(Checks(conf).check())


def _add_commands(commands: Any) -> None:
    text = "Check whether this release could be started now."
    upgrade = commands.add_parser("upgrade", help=text, description=text)
    upgrade.add_argument("check", choices=["check"], help="run the checks")
    upgrade.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    upgrade.add_argument(
        "--hours",
        type=float,
        default=24.0,
        metavar="N",
        help="warn when Nova has sent nothing, or no instance.update, for so many hours (default: 24)",
    )


def _reach(source: Source, timeout: float) -> None:
    """Reach the source in a thread, which is left behind when it takes too long.

    :raises SourceError: when it cannot be reached in time.
    :raises NotImplementedError: when its driver cannot tell.
    """
    failed: list[Exception] = []

    def run() -> None:
        try:
            source.probe()
        except Exception as exc:  # noqa: BLE001 - raised again in the caller's thread
            failed.append(exc)

    thread = threading.Thread(target=run, name=f"reach-{source.name}", daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        raise SourceError(f"no answer within {timeout:g} s")
    if failed:
        if isinstance(failed[0], (SourceError, NotImplementedError)):
            raise failed[0]
        raise SourceError(f"{type(failed[0]).__name__}: {failed[0]}") from failed[0]


def _journaled(store: Store, source: str, since: datetime.datetime, event_type: str | None = None) -> bool:
    """Whether an event of this source (and type) changed anything since then.

    :raises StorageError: when the journal cannot be read.
    """
    journal = store.tables.journal
    query = sa.select(journal.c.seq).where(journal.c.source == source).limit(1)
    if event_type is not None:
        query = query.where(journal.c.event_type == event_type)
    with translated(), store.database.connect() as connection:
        query = query.where(journal.c.seq >= first_since(connection, store.tables, since))
        return connection.execute(query).first() is not None
