# SPDX-License-Identifier: Apache-2.0
"""What ``watcher-sync-status upgrade check`` examines of Nova's notifications and of Nova's API.

Nova's configuration cannot be read, but the journal shows its effect. Without ``notify_on_state_change`` Nova sends no
instance.update. Without versioned notifications Nova sends nothing.
"""

from __future__ import annotations

import datetime

import sqlalchemy as sa
from oslo_config import cfg
from oslo_upgradecheck.upgradecheck import Code, Result

from watcher_sync.assembly.probing import warned
from watcher_sync.conf import cloud_account, opts
from watcher_sync.conf.drivers import enabled_sources
from watcher_sync.conf.findings import place
from watcher_sync.escaping import escaped
from watcher_sync.exceptions import ConfigError, StorageError
from watcher_sync.extension import Examined
from watcher_sync.extensions.openstack.conf import reconcile_nova
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.groups.source_status import list_inventories
from watcher_sync.storage.writing.journal import first_since
from watcher_sync.storage.writing.store import Store

RABBIT_SCHEMES = ("rabbit", "amqp", "kombu+rabbit", "kombu+amqp")
"""Of a transport_url whose broker is RabbitMQ."""
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


def drivers(examined: Examined) -> Result:
    """No source reads RabbitMQ with a driver that can lose its messages."""
    findings = []
    for name, driver in enabled_sources(examined.conf):
        if driver == "oslo_messaging":
            scheme = (examined.conf[f"source_{name}"].transport_url or "").partition("://")[0]
            if scheme in RABBIT_SCHEMES:
                findings.append(f"{place(examined.conf, 'driver', f'source_{name}')}: {_FIX_DRIVER}")
    return warned(findings)


def nova(examined: Examined) -> Result:
    """Nova sends the notifications that its defaults disable, as far as the journal shows it."""
    names = _nova_sources(examined.conf)
    if not names:
        return Result(Code.SUCCESS, _NO_NOVA)
    if examined.store is None:
        return Result(Code.WARNING, "This check needs the database.")
    hours = examined.conf.command.hours
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=hours)
    warnings = []
    try:
        for name in names:
            if not _journaled(examined.store, name, since):
                warnings.append(f"{name}: no notification changed the model within {hours:g} h; {_FIX_ALL}.")
            elif not _journaled(examined.store, name, since, "instance.update"):
                warnings.append(f"{name}: no instance.update within {hours:g} h; {_FIX_UPDATES}.")
    except StorageError as exc:
        return Result(Code.WARNING, escaped(f"The journal cannot be read: {exc}"))
    return Result(Code.WARNING, " ".join(warnings)) if warnings else Result(Code.SUCCESS)


def inventory(examined: Examined) -> Result:
    """Where Nova's notifications are received, its API is asked for what they do not tell, and shows everything."""
    if not _nova_sources(examined.conf):
        return Result(Code.SUCCESS, _NO_NOVA)
    if not examined.conf[reconcile_nova.GROUP].enabled:
        return Result(Code.WARNING, _FIX_INVENTORY)
    try:
        cloud_account.require_account(examined.conf, reconcile_nova.GROUP)
    except ConfigError as exc:
        return Result(Code.FAILURE, escaped(str(exc)))
    try:
        found = list_inventories(examined.store.database) if examined.store is not None else []
    except StorageError as exc:
        return Result(Code.WARNING, escaped(f"The inventories cannot be read: {exc}"))
    return warned([escaped(f"{one.source}: {one.problem}") for one in found if one.problem])


def _nova_sources(conf: cfg.ConfigOpts) -> list[str]:
    """The names of the enabled sources that receive Nova's notifications."""
    names = []
    for name in conf.engine.enabled_sources:
        opts.register_source(conf, name, [])
        if conf[f"source_{name}"].driver in NOVA_DRIVERS:
            names.append(name)
    return names


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
