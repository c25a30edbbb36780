# SPDX-License-Identifier: Apache-2.0
"""The commands of ``watcher-sync``, one module per noun.

``base``                   What all commands share: the client, errors in one line, the options of lists
``cells``                  Titles of columns, and values as each output format shows them
``choosing``               ``--filter``, ``--sort``, ``--limit`` and ``--marker`` of every list
``diff``                   ``diff``: what changed of each entity between two moments
``drift``                  ``drift list``: what differs from the live systems, and which VNF instances are at no level
``engine``                 ``engine list``: the engines of all groups, leading and standing by
``entity``                 ``entity list``, ``show``, ``history list``: the entities of every kind
``errors``                 Errors of commands, in addition to those of the client
``events``                 ``event list``, ``tail``: the journal; with ``--follow`` it waits for further changes
``export``                 ``export``: the entities of a kind as JSON lines, CSV or Parquet
``operation_secret``       How a command gets the secret of an operation
``parked``                 ``parked list``: the events that wait for an entity
``quarantine``             ``quarantine list``, ``show``, ``replay``, ``delete``
``registration``           Reads the registration of a VNF instance from a file or from options
``search``                 ``search``: entities of all kinds by their names and ids
``service_type_instance``  ``service type instance create``, ``set``, ``unset``, ``delete``, ``list``, ``show``
``source``                 ``source list``, ``show``, ``inventory list``: the state of sources and inventories
``subscription``           ``subscription create``, ``test``, ``delivery list`` and others: signed webhooks
``top``                    ``top``: sources, entities and changes, drawn once a second
``topic_events``           ``event tail --topic``: the events of a watch topic, over the watch stream
``vnf``                    ``vnf list``, ``show``, ``create``, ``set``, ``unset``, ``delete``, ``sync``
``vnf_cells``              The fields of a VNF instance as people read them
``vnf_operation``          ``vnf operation create``, ``heartbeat``, ``end``, ``list``, ``show``
``watch_topic``            ``watch topic create``, ``list``, ``show``, ``delete``
"""
