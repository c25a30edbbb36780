# SPDX-License-Identifier: Apache-2.0
"""The executables, one module each.

``api``              The executable ``watcher-sync-api``: the REST API on a development server
``api_server``       The work of ``watcher-sync-api``
``client``           The executable ``watcher-sync``: the client
``engine``           The executable ``watcher-sync-engine``: reads the sources and maintains the model
``engine_service``   The work of ``watcher-sync-engine``
``manage``           The executable ``watcher-sync-manage``: the database, the quarantine and recorded events
``outlet``           The executable ``watcher-sync-outlet``: delivers webhooks to subscribers
``outlet_services``  The work of ``watcher-sync-outlet``
``output``           The output of ``watcher-sync-manage``: JSON and tables
``start_signals``    Signals from the first moment of an executable
``status``           The executable ``watcher-sync-status``: checks that this release can start
"""

import warnings

warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
