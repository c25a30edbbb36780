# SPDX-License-Identifier: Apache-2.0
"""The database: tables, the commit's transaction, leases, and reading without a replica.

``background``        Runs a function in a daemon thread
``changed_states``    Reads the present states of the entities that changed after a seq
``clock``             The database's own clock, inside a statement
``commit_store``      The protocol that a commit cycle writes through
``commits``           Makes the statements of one commit
``compute_model``     Reads hosts and servers of one generation as the JSON text of one document
``conflicts``         Runs a transaction again at once after a deadlock
``counting``          Counts entities by owner and state in the database
``database``          Connects to the database, and classifies its errors
``database_time``     The time of the database, for deletions by age
``differences``       What changed of each entity between two seqs
``drifts``            Differences between model and live system, with the time of discovery
``encoded_pages``     Encoded entities in immutable pages of text
``encoded_rows``      Reads the rows of one kind as JSON text
``engines``           The engines of all groups, leading and standing by
``entity_pages``      Reads the entities of one kind in pages
``entity_rows``       Writes the entities of one kind into their table
``entity_states``     Reads entities with their versions as JSON text
``fencing``           Why a commit may not be written
``file_modes``        The modes of the files that our processes write
``filters``           Conditions on the fields of a kind, with one meaning on all databases
``healed_drifts``     Deletes the drifts whose value the model has by now
``history``           Recognises a database that went back in time
``host_usage``        Sums what the instances use of hosts
``inventories``        Whether the model has everything that a live system has
``journal``           The append-only log of applied changes with a gapless, commit-ordered ``seq``
``journal_signal``    Waits until the journal's head may have moved
``journal_tail``      One thread reads new journal rows for all readers of a process
``kind_tables``       The tables of plugins' kinds, held against their declarations
``last_seen``         Reads and writes the times when entities were last seen
``leases``            The lease of an engine group: one engine leads, the others are standbys
``level_drifts``      VNF instances whose pods match no level, and since when
``loading``           Loads the model from the tables at start
``locked``            A short write under the locked head, for a process without a replica
``member_states``     The state of an entity as one text, and the health that the state means
``moments``           Moments of the past whose model the journal can still show
``names``             Finds entities by their names and ids
``operation_leases``  The rows of operation leases and of operations
``outlet_tables``     The tables of subscriptions, their workers and watch topics
``parking``           Parked events, which wait for an entity
``past_models``       The model as it was at a seq: a copy of its tables in memory
``postgresql``        Connections to PostgreSQL that close when the server does not answer in time
``quarantine``        Lists, shows, drops and returns quarantined events
``quotas``            Limits the stored events of each source
``reading``           Reads entities and their history from the tables
``removed_sources``   What removed sources left behind
``retention``         Deletes old rows of the journal and of other tables
``row_entities``      The values that fields of entities had at journal rows
``schema``            The schema and its revisions (alembic)
``source_cursors``    Writes the position of a source outside a commit, and counts epochs
``source_status``     The state of each source, as its engine reports it
``sqlite_file``       Notices that the file of an SQLite database was deleted or replaced
``statements``        The statements of a commit, in the dialect of the database
``store``             Writes one commit in one database transaction
``stored_events``     Converts events to and from rows of quarantined and parked events
``subscription_rows``     The rows of subscriptions, and the statements that the API and workers share
``subscription_secrets``  Encrypts the signing secrets of subscriptions
``subscriptions``     The rows of subscriptions and of their progress, as the API writes and reads them
``tables``            The tables: one per entity kind, derived from its declaration
``time_limits``       Limits how long a process waits for the database, and the database for a process
``types``             Column types with one meaning on SQLite, PostgreSQL and MariaDB
``undoing``           What entities were before the changes after a seq
``watch_rows``        Reads the journal rows that may be events of a watch topic
``watch_topics``      The rows of watch topics, and the positions up to which REST served them
``webhooks``          What a worker of the webhook outlet reads and writes
"""
