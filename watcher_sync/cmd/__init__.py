# SPDX-License-Identifier: Apache-2.0
"""One module per executable.

``api``    ``watcher-sync-api``: the REST API on the standard library's server, for development and small labs
``client`` ``watcher-sync``: what a user runs; each command is an entry point in ``watcher_sync.cli``
``engine`` ``watcher-sync-engine``: listens to the sources and keeps the model
``manage`` ``watcher-sync-manage``: what an operator does to the database and with recorded events
``status`` ``watcher-sync-status upgrade check``: what would stand in the way of a start with this release
"""

import warnings

warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
