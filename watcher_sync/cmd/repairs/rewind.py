# SPDX-License-Identifier: Apache-2.0
"""Sets the stored position of a source, so that its next start reads history again."""

from __future__ import annotations

from oslo_config import cfg

from watcher_sync.assembly.engine import make_lease
from watcher_sync.assembly.sources import make_unstarted
from watcher_sync.exceptions import ConfigError, LeaseHeld
from watcher_sync.storage.writing.source_cursors import write_cursor
from watcher_sync.storage.writing.store import Store


def rewind(conf: cfg.ConfigOpts, store: Store, name: str, to: str) -> None:
    """Set the position of one source. The lease is held meanwhile, so no engine of the group reads or writes it.

    :param to: a place in the transport's history, in the words of the driver.
    :raises ConfigError: there is no such source or place, or the source has no position that can be set.
    :raises LeaseHeld: an engine leads.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    source = make_unstarted(conf, name, store.cursors().get(name))
    try:
        position = source.cursor_at(to)
    except NotImplementedError:
        driver = conf[f"source_{name}"].driver
        raise ConfigError(f"source {name}: the driver {driver} has no stored position that can be rewound") from None
    lease = make_lease(conf, store)
    holder = lease.take_unless_led()
    if holder is not None:
        raise LeaseHeld(
            f"engine group {lease.name!r} is led by {holder.holder.split('/')[0]}; stop its engines, then rewind"
        )
    try:
        write_cursor(store.database, store.tables, name, position)
    finally:
        lease.give_back()
