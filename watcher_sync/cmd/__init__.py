# SPDX-License-Identifier: Apache-2.0
"""The executables.

``api_server``       The work of ``watcher-sync-api``
``checks``           What the upgrade check examines
``database``         ``watcher-sync-manage``: schema and age of the whole database
``engine_service``   The work of ``watcher-sync-engine``
``events``           ``watcher-sync-manage``: recorded events, and those in quarantine
``handlers``         ``watcher-sync-manage``: the dispatch table
``manage``           The executable ``watcher-sync-manage``: its commands and their options
``model``            ``watcher-sync-manage``: the model, its journal, and the repair of one entity
``outlet_services``  The work of ``watcher-sync-outlet``, and health and metrics of its processes
``output``           The output of ``watcher-sync-manage``: JSON and tables
``reconciling``      ``watcher-sync-manage``: the comparison with the live systems
``repairs``          What an operator repairs by hand: the position of a source, and what a removed source left
``scaffold``         ``watcher-sync-manage``: the beginning of a plugin
``start``            The entry points of the client and of the services, which set up signals first
``status``           The executable ``watcher-sync-status``
"""

import warnings

warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
