# SPDX-License-Identifier: Apache-2.0
"""The executables.

``api_server``       The work of ``watcher-sync-api``
``checks``           What the upgrade check examines beside the database
``engine_service``   The work of ``watcher-sync-engine``
``manage``           The executable ``watcher-sync-manage``: the database, the quarantine and recorded events
``outlet_services``  The work of ``watcher-sync-outlet``, and health and metrics of its processes
``output``           The output of ``watcher-sync-manage``: JSON and tables
``repairs``          What an operator repairs by hand: the position of a source, and what a removed source left
``start``            The entry points of the client and of the services, which set up signals first
``status``           The executable ``watcher-sync-status``: checks that this release can start
"""

import warnings

warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
