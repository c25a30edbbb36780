# SPDX-License-Identifier: Apache-2.0
"""Compares a model that Watcher builds itself of a real cloud with that which watcher-sync-watcher builds of ours.

Watcher runs in a Python of its own, because its requirements are its own. :data:`VARIABLE` names it.
"""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import threading
import time
import wsgiref.simple_server
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from tests.functional.engine.driving import Installation
from tests.waiting import deadline
from watcher_sync.assembly import process
from watcher_sync.assembly.api import make_application
from watcher_sync.assembly.reconcile import make_reconcilers
from watcher_sync.conf import opts
from watcher_sync.dispatch import load_handlers
from watcher_sync.storage.writing.store import Store

VARIABLE = "WATCHER_SYNC_TEST_WATCHER"
"""Names a Python interpreter that has python-watcher and watcher-sync-watcher."""

needs_watcher = pytest.mark.skipif(not os.environ.get(VARIABLE), reason=f"{VARIABLE} names no Python with Watcher")

_SCRIPT = Path(__file__).parents[1] / "contrib" / "watcher-sync-watcher" / "collector_tests" / "comparing.py"


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


@contextmanager
def served(store: Store) -> Iterator[str]:
    """The URL of an API without tokens over a store."""
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("auth_strategy", "noauth", group="api")
    server = wsgiref.simple_server.make_server("127.0.0.1", 0, make_application(conf, store), _Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def reconciled(name: str, login: Mapping[str, str], folder: Path) -> Iterator[Store]:
    """A store that one run of the reconciler of this name has filled.

    :param folder: an empty folder for the database.
    """
    options: dict[str, object] = {"engine.enabled_sources": "", "reconcile.enabled": False}
    options |= {f"reconciler_{name}.{option}": value for option, value in login.items()}
    with Installation(folder, f"sqlite:///{folder / 'model.sqlite'}", options) as installation:
        installation.upgrade()
        conf = process.make_conf(["--config-file", str(installation.config())], prog="watcher-sync-manage")
        made = make_reconcilers(conf, installation.store, load_handlers(conf))
        (reconciler,) = (one for one in made if one.name == name)
        reconciler.run(name, deadline=time.monotonic() + deadline(60))
        yield installation.store


def compare(
    compared: str,
    store: Store,
    login: Mapping[str, str],
    options: Mapping[str, Mapping[str, Any]],
    strategies: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """What ``comparing.py`` says of both models; it has the meaning of the arguments."""
    with served(store) as endpoint:
        given = {
            "compared": compared, "login": login, "endpoint": endpoint, "options": options, "strategies": strategies
        }  # fmt: skip
        command = [os.environ[VARIABLE], "-W", "ignore", str(_SCRIPT)]
        done = subprocess.run(
            command, input=json.dumps(given), capture_output=True, text=True, timeout=deadline(300), check=False
        )
    assert done.returncode == 0, done.stderr[-5000:]
    result: dict[str, Any] = json.loads(done.stdout)
    return result
