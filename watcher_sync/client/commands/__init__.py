# SPDX-License-Identifier: Apache-2.0
"""The commands of ``watcher-sync``, one module per noun.

``arguments``              The arguments as values: those of several commands, and the types of their values
``base``                   What all commands share; ``Noun`` declares one, and makes its ``list``, ``show``, ``delete``
``cells``                  Titles of columns, and values as each output format shows them
``choosing``               ``--filter``, ``--sort``, ``--limit`` and ``--marker`` of every list
``entity``                 ``entity list``, ``show``, ``history list``, ``diff``, ``search``: the entities of every kind
``events``                 ``event list``, ``tail``: the journal; with ``--follow`` it waits for further changes
``export``                 ``export``: the entities of a kind as JSON lines, CSV or Parquet
``files``                  Reads the file that an option names: a secret, or an object as JSON or YAML
``graph``                  ``graph show``, ``impact show``: what an entity needs, and what depends on it
``kinds``                  ``server list``, ``host list``, ``pod show`` and others: kinds with nouns of their own
``monitoring``             ``engine``, ``source``, ``inventory``, ``drift``, ``parked`` and ``quarantine``
``provider_binding``       ``provider binding list``, ``delete``: which sources are bound to which provider
``registration``           Reads the registration of a VNF instance from a file or from options
``service_type_instance``  ``service type instance create``, ``set``, ``unset``, ``delete``, ``list``, ``show``
``subscription``           ``subscription create``, ``test``, ``delivery list`` and others: signed webhooks
``top``                    ``top``: sources, entities and changes, drawn once a second
``vnf``                    ``vnf list``, ``show``, ``create``, ``set``, ``unset``, ``delete``, ``sync``
``vnf_operation``          ``vnf operation create``, ``heartbeat``, ``end``, ``list``, ``show``
``watch_topic``            ``watch topic create``, ``list``, ``show``, ``delete``
"""
