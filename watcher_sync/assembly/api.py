# SPDX-License-Identifier: Apache-2.0
"""The REST API's WSGI application, assembled from its configuration."""

from __future__ import annotations

from oslo_config import cfg

from watcher_sync.api.app import Wsgi, make_application
from watcher_sync.assembly.grants import ConfiguredGrants
from watcher_sync.assembly.on_demand import SyncOnDemand
from watcher_sync.assembly.store import open_store_of_server
from watcher_sync.conf import keystone


def assemble(conf: cfg.ConfigOpts) -> Wsgi:
    """The application over the store of ``[database] connection``.

    :raises ConfigError: the configuration cannot work.
    :raises SchemaMissing: ``db_sync`` has not been run.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    if conf.api.auth_strategy == "keystone":
        keystone.require_complete(conf)
    store = open_store_of_server(conf)
    return make_application(conf, store, SyncOnDemand(conf, store), ConfiguredGrants(conf))
