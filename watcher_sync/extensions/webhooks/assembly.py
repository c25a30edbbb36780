# SPDX-License-Identifier: Apache-2.0
"""The webhooks of ``watcher-sync-outlet``, made from the configuration."""

from __future__ import annotations

import random
import ssl
import time
import uuid

from oslo_config import cfg

from watcher_sync.assembly.store import open_store_of_server
from watcher_sync.conf import files
from watcher_sync.extensions.webhooks import options
from watcher_sync.extensions.webhooks.deliveries import Clock
from watcher_sync.extensions.webhooks.metrics import WebhookCollector
from watcher_sync.extensions.webhooks.secrets import SecretBox
from watcher_sync.extensions.webhooks.sender import Sender
from watcher_sync.extensions.webhooks.shards import ShardLeases
from watcher_sync.extensions.webhooks.worker import WebhookWorker
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.store import Store

_BUSY_SECONDS = 0.2
"""The pause of the reader under load. Each round writes, and on SQLite a write keeps the engine waiting."""


class WebhookOutlet:
    """The parts of one worker process."""

    def __init__(self, store: Store, reader: JournalReader, worker: WebhookWorker) -> None:
        self.store = store
        self.worker = worker
        self._reader = reader

    def start(self) -> None:
        """Start to deliver; returns at once."""
        self._reader.start()
        self.worker.start()

    def stop(self, timeout: float) -> None:
        """Stop to deliver; returns when all has ended, or after so many seconds."""
        self.worker.stop(timeout)
        self._reader.stop()
        self.store.dispose()

    def is_alive(self) -> bool:
        """Whether the worker's thread runs."""
        return self.worker.is_alive()

    def collector(self) -> WebhookCollector:
        """The metrics of the worker."""
        return WebhookCollector(self.worker.stats)


def check(conf: cfg.ConfigOpts) -> None:
    """Check the options of ``[outlet_webhook]``.

    :raises ConfigError: one cannot work.
    """
    settings = conf.outlet_webhook
    options.parsed_networks(settings.allowed_networks)
    SecretBox(settings.secret_keys)
    _ssl_context(conf)


def assemble(conf: cfg.ConfigOpts) -> WebhookOutlet:
    """The webhooks of one worker process.

    :raises ConfigError: the configuration cannot work.
    :raises SchemaMissing: ``db_sync`` has not been run.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    check(conf)
    settings = conf.outlet_webhook
    store = open_store_of_server(conf)
    context = _ssl_context(conf)
    reader = JournalReader(
        store.database, store.tables, interval=conf.database.journal_poll_interval, busy_seconds=_BUSY_SECONDS
    )
    worker = WebhookWorker(
        store,
        ShardLeases(store.database, store.tables, seconds=conf.database.lease_time),
        reader,
        lambda: Sender(settings, ssl_context=context),
        SecretBox(settings.secret_keys),
        settings,
        Clock(
            now=store.time.now,
            monotonic=time.monotonic,
            random=random.random,
            new_id=lambda: f"msg_{uuid.uuid4().hex}",
        ),
    )
    return WebhookOutlet(store, reader, worker)


def _ssl_context(conf: cfg.ConfigOpts) -> ssl.SSLContext | None:
    path = conf.outlet_webhook.ca_file
    if not path:
        return None
    files.check_tls("outlet_webhook", ("ca_file", path))
    return ssl.create_default_context(cafile=path)
