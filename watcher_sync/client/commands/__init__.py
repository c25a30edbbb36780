# SPDX-License-Identifier: Apache-2.0
"""The commands of ``watcher-sync``, one module per noun.

``base``              What all commands share: the client, errors in one line, the format of values
``drift``             ``drift list``: the differences between the model and the live systems
``entity``            ``entity list``, ``show``, ``history``: the entities of every kind
``events``            ``events tail``: the journal; with ``--follow`` it waits for further changes
``operation_secret``  How a command gets the secret of an operation
``quarantine``        ``quarantine list``, ``show``, ``replay``, ``drop``
``registration``      Reads the registration of a VNF instance from a file or from options
``source``            ``source list``, ``show``, ``inventory list``: the state of sources and inventories
``subscription``      ``subscription list``, ``create``, ``test``, ``deliveries`` and others: signed webhooks
``top``               ``top``: sources, entities and changes, drawn once a second
``topic_events``      ``events tail --topic``: the events of a watch topic, over the watch stream
``vnf``               ``vnf list``, ``show``, ``register``, ``update``, ``delete``, ``sync``
``vnf_operation``     ``vnf operation begin``, ``heartbeat``, ``end``, ``list``, ``show``
``watch_topic``       ``watch topic create``, ``list``, ``show``, ``delete``
"""
