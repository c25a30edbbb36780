# SPDX-License-Identifier: Apache-2.0
"""The database: tables, the commit's transaction, leases, and reading without a replica.

``database``  The database: engine, sessions, dialects, time, and what is tried again
``schema``    The tables, and the revisions that make them
``writing``   What a commit writes
``groups``    What engines agree on: leases, memberships, and the state of sources
``stored``    Events set aside, and how long rows remain

``changed_states``       Reads the present states of the entities that changed after a seq
``compute_model``        Reads hosts and servers of one generation as the JSON text of one document
``counting``             Counts entities by owner and state in the database
``differences``          What changed of each entity between two seqs
``drifts``               Differences between model and live system, with the time of discovery
``encoded_pages``        Encoded entities in immutable pages of text
``encoded_rows``         Reads the rows of one kind as JSON text
``entity_pages``         Reads the entities of one kind in pages
``entity_states``        Reads entities with their versions as JSON text
``filters``              Conditions on the fields of a kind, with one meaning on all databases
``healed_drifts``        Deletes the drifts whose value the model has by now
``history``              Recognises a database that went back in time
``host_usage``           Sums what the instances use of hosts
``journal_signal``       Waits until the journal's head may have moved
``journal_tail``         One thread reads new journal rows for all readers of a process
``level_drifts``         VNF instances whose pods match no level, and since when
``loading``              Loads the model from the tables at start
``member_states``        The state of an entity as one text, and the health that the state means
``moments``              Moments of the past whose model the journal can still show
``names``                Finds entities by their names and ids
``past_models``          The model as it was at a seq: a copy of its tables in memory
``reading``              Reads entities and their history from the tables
``table_model``          The model as the tables have it
``row_entities``         The values that fields of entities had at journal rows
``subscription_rows``    The rows of subscriptions, and the statements that the API and workers share
``subscription_secrets``  Encrypts the signing secrets of subscriptions
``subscriptions``        The rows of subscriptions and of their progress, as the API writes and reads them
``undoing``              What entities were before the changes after a seq
``watch_rows``           Reads the journal rows that may be events of a watch topic
``watch_topics``         The rows of watch topics, and the positions up to which REST served them
``webhooks``             What a worker of the webhook outlet reads and writes
"""
