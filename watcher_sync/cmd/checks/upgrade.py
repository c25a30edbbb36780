# SPDX-License-Identifier: Apache-2.0
"""The checks of ``watcher-sync-status upgrade check``.

They write nothing and consume no event. They cannot read Nova's configuration, but the journal shows its effect.
Without ``notify_on_state_change`` Nova sends no instance.update. Without versioned notifications Nova sends nothing.
"""

from __future__ import annotations

import datetime
import logging
import threading
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from oslo_upgradecheck import upgradecheck
from oslo_upgradecheck.upgradecheck import Code, Result

from watcher_sync.assembly.api import check_policy
from watcher_sync.assembly.log import make_outlets
from watcher_sync.assembly.sources import make_authority, source_makers
from watcher_sync.assembly.store import open_store
from watcher_sync.cmd.checks.insecure_settings import (
    RABBIT_SCHEMES,
    enabled_sources,
    find_insecure_access,
    find_insecure_transports,
    place,
)
from watcher_sync.cmd.checks.loose_files import find_loose_files
from watcher_sync.conf import cloud_account, opts, reconcile_nova
from watcher_sync.dispatch import load_handlers
from watcher_sync.escaping import escaped
from watcher_sync.exceptions import ConfigError, SchemaMissing, SourceError, StorageError, WatcherSyncError
from watcher_sync.model.loading import load_kinds
from watcher_sync.storage.database.database import narrow_charset, translated, url_of
from watcher_sync.storage.groups.source_status import list_inventories
from watcher_sync.storage.schema import schema
from watcher_sync.storage.writing.journal import first_since
from watcher_sync.storage.writing.store import Store

NOVA_DRIVERS = ("oslo_messaging", "rabbitmq", "rabbitmq_stream")
"""The drivers of sources that receive Nova's notifications."""

_FIX_ALL = (
    "set [notifications] notification_format = versioned (or both) and"
    " [oslo_messaging_notifications] driver = messagingv2 on Nova's API, conductor and compute hosts"
)
_FIX_DRIVER = (
    "with oslo_messaging RabbitMQ can lose messages, and neither lag nor a lost connection is reported; set"
    " driver = rabbitmq, which takes over the queue."
)
_FIX_UPDATES = "set [notifications] notify_on_state_change = vm_and_task_state on Nova's hosts"
_FIX_INVENTORY = (
    "[reconcile_nova] enabled is false: notifications report only what changes. What existed before, the uuid and state"
    " of hosts, and what a lost notification reported stay unknown; set enabled = true and an account."
)
_NO_NOVA = "No enabled source receives Nova's notifications."


class Checks(upgradecheck.UpgradeCommands):
    """The checks of one configuration."""

    def __init__(self, conf: cfg.ConfigOpts, *, timeout: float = 10.0) -> None:
        """:param timeout: seconds within which each source has to answer."""
        self._conf = conf
        self._timeout = timeout
        self._store: Store | None = None

    def database(self) -> Result:
        """The database is available and has the schema of this release."""
        try:
            store = open_store(self._conf, checked=False)
            problems = schema.check(store.database, store.tables)
        except (SchemaMissing, ConfigError) as exc:
            return Result(Code.FAILURE, escaped(str(exc)))
        except StorageError as exc:
            return Result(Code.FAILURE, escaped(f"The database is unavailable: {exc}"))
        self._store = store
        found = list(problems.values())
        if charset := narrow_charset(url_of(self._conf)):
            found.append(f"charset={charset} of {place(self._conf, 'connection', 'database')} is read as utf8mb4")
        if found:
            return Result(Code.WARNING, escaped("; ".join(found)))
        return Result(Code.SUCCESS)

    def sources(self) -> Result:
        """Every enabled source has a valid configuration and is available."""
        names = self._conf.engine.enabled_sources
        if not names:
            return Result(Code.WARNING, "[engine] enabled_sources is empty: the engine would read no source.")
        try:
            makers = source_makers(self._conf, None)
            make_authority(self._conf, load_handlers(self._conf))
        except WatcherSyncError as exc:
            return Result(Code.FAILURE, escaped(str(exc)))
        problems, unsupported = [], []
        for name, make in makers.items():
            try:
                _probe(name, make().probe, self._timeout)
            except WatcherSyncError as exc:
                problems.append(escaped(f"{name}: {exc}"))
            except NotImplementedError:
                unsupported.append(name)
        if problems:
            return Result(Code.FAILURE, "Unavailable: " + "; ".join(problems))
        return Result(Code.SUCCESS, f"The driver has no probe: {', '.join(unsupported)}" if unsupported else None)

    def outlets(self) -> Result:
        """The log of every enabled outlet is available, and takes the largest entity that the model accepts."""
        try:
            kinds, outlets = load_kinds(), make_outlets(self._conf)
        except WatcherSyncError as exc:
            return Result(Code.FAILURE, escaped(str(exc)))
        problems, warnings = [], []
        for name, outlet in outlets.items():
            published = [kind for kind in kinds.values() if kind.name in (outlet.group.kinds or kinds)]
            sizes = [(sum(field.max_bytes for field in kind.fields.values()), kind.name) for kind in published]
            size, largest = max(sizes, default=(0, ""))
            try:
                limit = _probe(name, outlet.probe, self._timeout)
            except WatcherSyncError as exc:
                problems.append(escaped(f"{name}: {exc}"))
                continue
            if limit is not None and limit < size:
                warnings.append(
                    f"{name}: an entity of the kind {largest} may have {size} bytes, and the log takes {limit}: a"
                    f" larger one is published without its fields. Raise {outlet.limit_names}."
                )
        return Result(Code.FAILURE, "Unavailable: " + "; ".join(problems)) if problems else _warn(warnings)

    def drivers(self) -> Result:
        """No source reads RabbitMQ with a driver that can lose its messages."""
        findings = []
        for name, driver in enabled_sources(self._conf):
            if driver == "oslo_messaging":
                scheme = (self._conf[f"source_{name}"].transport_url or "").partition("://")[0]
                if scheme in RABBIT_SCHEMES:
                    findings.append(f"{place(self._conf, 'driver', f'source_{name}')}: {_FIX_DRIVER}")
        return _warn(findings)

    def nova(self) -> Result:
        """Nova sends the notifications that its defaults disable, as far as the journal shows it."""
        names = self._nova_sources()
        if not names:
            return Result(Code.SUCCESS, _NO_NOVA)
        if self._store is None:
            return Result(Code.WARNING, "This check needs the database.")
        hours = self._conf.command.hours
        since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=hours)
        warnings = []
        try:
            for name in names:
                if not _journaled(self._store, name, since):
                    warnings.append(f"{name}: no notification changed the model within {hours:g} h; {_FIX_ALL}.")
                elif not _journaled(self._store, name, since, "instance.update"):
                    warnings.append(f"{name}: no instance.update within {hours:g} h; {_FIX_UPDATES}.")
        except StorageError as exc:
            return Result(Code.WARNING, escaped(f"The journal cannot be read: {exc}"))
        return Result(Code.WARNING, " ".join(warnings)) if warnings else Result(Code.SUCCESS)

    def inventory(self) -> Result:
        """Where Nova's notifications are received, its API is asked for what they do not tell, and shows everything."""
        if not self._nova_sources():
            return Result(Code.SUCCESS, _NO_NOVA)
        if not self._conf[reconcile_nova.GROUP].enabled:
            return Result(Code.WARNING, _FIX_INVENTORY)
        try:
            cloud_account.require_account(self._conf, reconcile_nova.GROUP)
        except ConfigError as exc:
            return Result(Code.FAILURE, escaped(str(exc)))
        try:
            found = list_inventories(self._store.database) if self._store is not None else []
        except StorageError as exc:
            return Result(Code.WARNING, escaped(f"The inventories cannot be read: {exc}"))
        return _warn([escaped(f"{one.source}: {one.problem}") for one in found if one.problem])

    def _nova_sources(self) -> list[str]:
        """The names of the enabled sources that receive Nova's notifications."""
        conf, names = self._conf, []
        for name in conf.engine.enabled_sources:
            opts.register_source(conf, name, [])
            if conf[f"source_{name}"].driver in NOVA_DRIVERS:
                names.append(name)
        return names

    def access(self) -> Result:
        """No setting lets clients or providers do more than they should."""
        return _warn(find_insecure_access(self._conf))

    def transports(self) -> Result:
        """Every connection to another machine has TLS and verifies the peer."""
        return _warn(find_insecure_transports(self._conf))

    def policy(self) -> Result:
        """The files of the policy have no mistake, with which neither the API nor the watch stream starts."""
        try:
            check_policy(self._conf)
        except WatcherSyncError as exc:
            return Result(Code.FAILURE, escaped(str(exc)))
        return Result(Code.SUCCESS)

    def files(self) -> Result:
        """No other user can read a secret, or change a file that this service reads."""
        return _warn(find_loose_files(self._conf))

    _upgrade_checks: Any = (
        # The files first: the check of the database restricts an SQLite file.
        ("Security of files", files),
        ("Security of access", access),
        ("Security of transports", transports),
        ("Policy", policy),
        ("Database schema", database),
        ("Sources", sources),
        ("Drivers of sources", drivers),
        ("Outlets", outlets),
        ("Nova's notifications", nova),
        ("Nova's inventory", inventory),
    )


def run(conf: cfg.ConfigOpts) -> int:
    """Run the checks and print their results; returns the exit status."""
    # The check reports a failed connection. The driver's log line would make the output unreadable for programs.
    logging.getLogger("oslo.messaging").setLevel(logging.CRITICAL)
    upgradecheck.CONF = conf  # the library reads --json from it
    return int(Checks(conf).check())


def _probe(name: str, probe: Callable[[], Any], timeout: float) -> Any:
    """What a probe returns that runs in a daemon thread, which is abandoned after ``timeout`` seconds.

    :raises WatcherSyncError: what is probed is unavailable, or does not answer in time.
    :raises NotImplementedError: its driver has no probe.
    """
    answers: list[Any] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            answers.append(probe())
        except Exception as exc:  # noqa: BLE001 - raised again in the caller's thread
            failed.append(exc)

    thread = threading.Thread(target=run, name=f"probe-{name}", daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        raise SourceError(f"no answer within {timeout:g} s")
    if failed:
        if isinstance(failed[0], (WatcherSyncError, NotImplementedError)):
            raise failed[0]
        raise SourceError(f"{type(failed[0]).__name__}: {failed[0]}") from failed[0]
    return answers[0]


def _warn(findings: list[str]) -> Result:
    """A warning with one line per finding."""
    return Result(Code.WARNING, "\n".join(findings)) if findings else Result(Code.SUCCESS)


def _journaled(store: Store, source: str, since: datetime.datetime, event_type: str | None = None) -> bool:
    """Whether an event of this source (and type) changed the model since then.

    :raises StorageError: the journal cannot be read.
    """
    journal = store.tables.journal
    query = sa.select(journal.c.seq).where(journal.c.source == source).limit(1)
    if event_type is not None:
        query = query.where(journal.c.event_type == event_type)
    with translated(), store.database.connect() as connection:
        query = query.where(journal.c.seq >= first_since(connection, store.tables, since))
        return connection.execute(query).first() is not None
