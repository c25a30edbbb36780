# SPDX-License-Identifier: Apache-2.0
"""The commands of ``watcher-sync``, one module per noun.

``base``          What all commands share: the client, errors in one line, and how values look
``drift``         ``drift list``: where reconciliation found the model and the live system to differ
``entity``        ``entity list``, ``entity show``, ``entity history``: what exists, of every kind
``events``        ``events tail``: the journal, and with ``--follow`` as it grows
``quarantine``    ``quarantine list``, ``show``, ``replay``, ``drop``
``registration``  The registration of a VNF instance as a command line says it: in a file, or in options
``source``        ``source list`` and ``source show``: where events come from, and whether they do
``top``           ``top``: the model at work, drawn once a second until q or Ctrl-C
``vnf``           ``vnf list``, ``show``, ``register``, ``update``, ``delete``, ``sync``
``vnf_operation`` ``vnf operation begin``, ``heartbeat``, ``end``, ``list``, ``show``
"""
