# SPDX-License-Identifier: Apache-2.0
"""``watcher_sync.wsgi.api:application``: the REST API for any WSGI server.

A WSGI server gives no command line, so the configuration is named by the environment, as other OpenStack
services have it: ``OS_WATCHER_SYNC_CONFIG_FILES`` and ``OS_WATCHER_SYNC_CONFIG_DIRS``, each several paths
separated by ``;``. Without them it is where every service finds its own: ``/etc/watcher-sync``.

The server must use native threads, and more of them than ``[api] max_streams``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from watcher_sync.api.app import Wsgi, make_application
from watcher_sync.assembly import process
from watcher_sync.assembly.on_demand import SyncOnDemand
from watcher_sync.assembly.store import open_store

FILES = "OS_WATCHER_SYNC_CONFIG_FILES"
DIRS = "OS_WATCHER_SYNC_CONFIG_DIRS"


def init_application(environ: Mapping[str, str] = os.environ) -> Wsgi:
    """The application of this worker process.

    :raises ConfigError: when the configuration cannot work.
    :raises SchemaMissing: when db_sync has not been run.
    :raises DatabaseUnavailable: when the database cannot be reached now.
    """
    process.prepare()
    arguments = [f"--config-file={path}" for path in environ.get(FILES, "").split(";") if path.strip()]
    arguments += [f"--config-dir={path}" for path in environ.get(DIRS, "").split(";") if path.strip()]
    conf = process.make_conf(arguments, prog="watcher-sync-api")
    store = open_store(conf)
    return make_application(conf, store, SyncOnDemand(conf, store))


def __getattr__(name: str) -> Wsgi:
    """``application`` is made when a server asks for it, not when the module is imported."""
    if name != "application":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    application = globals()["application"] = init_application()
    return application
