# SPDX-License-Identifier: Apache-2.0
"""``watcher_sync.wsgi.api:application``: the REST API for any WSGI server.

A WSGI server has no command line for the application. As in other OpenStack services, the environment names the
configuration: ``OS_WATCHER_SYNC_CONFIG_FILES`` and ``OS_WATCHER_SYNC_CONFIG_DIRS``, each with paths separated by ``;``.
The default is ``/etc/watcher-sync``.

The server must use native threads. Their number must exceed ``[api] max_streams``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from watcher_sync.assembly import process
from watcher_sync.assembly.api import Wsgi, assemble

FILES = "OS_WATCHER_SYNC_CONFIG_FILES"
DIRS = "OS_WATCHER_SYNC_CONFIG_DIRS"


def init_application(environ: Mapping[str, str] = os.environ) -> Wsgi:
    """The application of this worker process.

    :raises ConfigError: the configuration cannot work.
    :raises SchemaMissing: ``db_sync`` has not been run.
    """
    process.prepare()
    arguments = [f"--config-file={path}" for path in environ.get(FILES, "").split(";") if path.strip()]
    arguments += [f"--config-dir={path}" for path in environ.get(DIRS, "").split(";") if path.strip()]
    conf = process.make_conf(arguments, prog="watcher-sync-api")
    process.use_threads()
    return assemble(conf)


def __getattr__(name: str) -> Wsgi:
    """Make ``application`` at its first use, not at the import of the module."""
    if name != "application":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    application = globals()["application"] = init_application()
    return application
