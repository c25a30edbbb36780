# SPDX-License-Identifier: Apache-2.0
"""The watch stream of ``watcher-sync-outlet``, made from the configuration. It imports gRPC: only after the fork."""

from __future__ import annotations

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.assembly.api import rules_with
from watcher_sync.assembly.store import open_store_of_server
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.watch import settings
from watcher_sync.extensions.watch.callers import make_authenticator
from watcher_sync.extensions.watch.metrics import WatchCollector
from watcher_sync.extensions.watch.model.resources import Describer
from watcher_sync.extensions.watch.stored import stored_of
from watcher_sync.extensions.watch.tls import Certificates
from watcher_sync.extensions.watch.worker import WatchWorker
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.store import Store

LOG = logging.getLogger(__name__)


class WatchOutlet:
    """The parts of the process."""

    def __init__(
        self, store: Store, reader: JournalReader, worker: WatchWorker, certificates: Certificates | None
    ) -> None:
        self.store = store
        self.worker = worker
        self._reader = reader
        self._certificates = certificates

    def start(self) -> None:
        """Start to serve; returns at once."""
        self._reader.start()
        self.worker.start()

    def stop(self, timeout: float) -> None:
        """End all streams; returns when all has ended, or after so many seconds."""
        self.worker.stop(timeout)
        self._reader.stop()
        self.store.dispose()

    def is_alive(self) -> bool:
        """Whether it serves."""
        return self.worker.is_serving()

    def collector(self) -> WatchCollector:
        """The metrics of the streams."""
        return WatchCollector(self.worker.stats)

    def reload(self) -> None:
        """Use the certificates that the files have now, for new connections."""
        if self._certificates is None:
            return
        try:
            self._certificates.reload()
        except ConfigError as exc:
            LOG.error("watch: the certificates were not reloaded: %s", exc)


def assemble(conf: cfg.ConfigOpts) -> WatchOutlet:
    """The watch stream of one process.

    :raises ConfigError: the configuration cannot work.
    :raises SchemaMissing: ``db_sync`` has not been run.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    settings.check(conf)
    declared = open_store_of_server(conf, checked=False)
    rules = rules_with(conf, declared)
    declared.dispose()
    store = open_store_of_server(conf)
    group = conf.outlet_watch
    reader = JournalReader(store.database, store.tables, interval=conf.database.journal_poll_interval)
    describer = Describer(store.kinds)
    certificates = Certificates(group.tls_cert, group.tls_key, group.tls_client_ca) if group.tls_cert else None
    authenticator = make_authenticator(conf, store.kinds, rules)
    stored = stored_of(store, describer)
    return WatchOutlet(
        store,
        reader,
        WatchWorker(reader, describer, stored, authenticator, settings.settings_of(conf), certificates),
        certificates,
    )
