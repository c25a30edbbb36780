# SPDX-License-Identifier: Apache-2.0
"""Serve a WSGI application: ``serve.py PORT THREADS MODULE:NAME``.

OpenStack's applications parse the program's arguments when they are imported, so this script removes its own first.
"""

from __future__ import annotations

import importlib
import pathlib
import sys

import waitress

if __name__ == "__main__":
    port, threads, target = sys.argv[1:4]
    del sys.argv[1:]
    # Its own folder has the application of the networks.
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    module, _, name = target.partition(":")
    application = getattr(importlib.import_module(module), name)
    waitress.serve(application, listen=f"127.0.0.1:{port}", threads=int(threads), channel_timeout=300)
