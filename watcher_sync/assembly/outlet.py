# SPDX-License-Identifier: Apache-2.0
"""The webhooks of ``watcher-sync-outlet``, made from the configuration."""

from __future__ import annotations

import random
import ssl
import time
import uuid

from oslo_config import cfg

from watcher_sync.assembly.store import open_store_of_server
from watcher_sync.conf import files, outlet_watch, outlet_webhook
from watcher_sync.exceptions import ConfigError
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.store import Store
from watcher_sync.webhooks.deliveries import Clock
from watcher_sync.webhooks.secrets import SecretBox
from watcher_sync.webhooks.sender import Sender
from watcher_sync.webhooks.shards import ShardLeases
from watcher_sync.webhooks.worker import WebhookWorker

_MAX_PORT = 65_535

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


def check(conf: cfg.ConfigOpts) -> None:
    """Check the options of ``[outlet_webhook]``.

    :raises ConfigError: one cannot work.
    """
    settings = conf.outlet_webhook
    outlet_webhook.parsed_networks(settings.allowed_networks)
    SecretBox(settings.secret_keys)
    _ssl_context(conf)
    monitoring_ports(conf)


def monitoring_ports(conf: cfg.ConfigOpts) -> range:
    """The ports on which the workers serve their health and metrics; empty if they do not.

    :raises ConfigError: a port is above 65535, or is another port of this configuration.
    """
    settings = conf.outlet_webhook
    if not settings.monitoring_port:
        return range(0)
    ports = range(settings.monitoring_port, settings.monitoring_port + settings.workers)
    options = "[outlet_webhook] monitoring_port, workers"
    if ports[-1] > _MAX_PORT:
        raise ConfigError(f"{options}: the ports of {len(ports)} workers end at {ports[-1]}, above {_MAX_PORT}")
    others = [("[monitoring] port", conf.monitoring.port), ("[api] port", conf.api.port)]
    if outlet_watch.is_enabled(conf):
        watch = conf.outlet_watch
        others += [("[outlet_watch] port", watch.port), ("[outlet_watch] monitoring_port", watch.monitoring_port)]
    for name, port in others:
        if port in ports:
            raise ConfigError(f"{options}: {port} is also {name}")
    return ports


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
        store.database, store.tables, interval=settings.journal_poll_interval, busy_seconds=_BUSY_SECONDS
    )
    worker = WebhookWorker(
        store,
        ShardLeases(store.database, store.tables, seconds=settings.lease_time),
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
