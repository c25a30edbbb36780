# SPDX-License-Identifier: Apache-2.0
"""The executables, one module each.

``api_server``         The work of ``watcher-sync-api``
``api``                The executable ``watcher-sync-api``: the REST API on a development server
``checks``             What the upgrade check examines beside the database
``client``             The executable ``watcher-sync``: the client
``engine_service``     The work of ``watcher-sync-engine``
``engine``             The executable ``watcher-sync-engine``: reads the sources and maintains the model
``manage``             The executable ``watcher-sync-manage``: the database, the quarantine and recorded events
``outlet_monitoring``  Health and metrics of one worker as a WSGI application
``outlet_services``    The work of ``watcher-sync-outlet``
``outlet``             The executable ``watcher-sync-outlet``: delivers webhooks to subscribers
``output``             The output of ``watcher-sync-manage``: JSON and tables
``repairs``            What an operator repairs by hand, with the engines stopped
``start_signals``      Signals from the first moment of an executable
``status``             The executable ``watcher-sync-status``: checks that this release can start
"""

import warnings

warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
