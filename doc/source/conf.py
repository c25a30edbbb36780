# SPDX-License-Identifier: Apache-2.0
"""How the documentation is built; see the tox environment docs."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

from oslo_service import backend

# The modules that the pages describe load oslo.service, which prefers eventlet where it is installed.
backend.init_backend(backend.BackendType.THREADING)
sys.path.insert(0, str(Path(__file__).parents[1] / "ext"))

project = "watcher_sync"
author = "The watcher_sync authors"
copyright = author
release = version = installed("watcher-sync")

extensions = [
    "cliff.sphinxext",
    "oslo_config.sphinxext",
    "sphinx.ext.autodoc",
    "watcher_sync_registry",
    "watcher_sync_rest",
]

html_theme = "furo"
html_title = "watcher_sync"
autodoc_typehints = "description"
autodoc_member_order = "bysource"
highlight_language = "none"
