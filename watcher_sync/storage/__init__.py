# SPDX-License-Identifier: Apache-2.0
"""The database: tables, the commit's transaction, leases, and what is read without a replica.

``background``       Doing one thing beside what the caller goes on with
``clock``            The database's own clock, inside a statement
``commit_store``     What a commit cycle writes through: Store, or LockedStore
``commits``          What one commit writes, as statements that are ready to run
``counting``         How many entities of a kind belong to each of another, by state: counted by the database
``database``         How the database is reached, and what its errors mean to us
``drifts``           Drifts: where reconciliation found the model and the live system to differ, and since when
``entity_rows``      How what became of the entities of one kind gets into their table
``journal``          The journal: an append-only log of applied changes with a gapless, commit-ordered ``seq``
``last_seen``        Reads and writes the times when entities were last seen
``leases``           The lease of an engine group: one engine leads, the others stand by
``loading``          Warm restart: the model as the tables have it, without asking the live systems
``locked``           A short write by a process that holds no replica: the journal's head is locked, then read
``operation_leases`` The rows of operation leases, and what became of the operations
``parking``          Parked events: those that came before the entity they speak of
``quarantine``       The quarantine as operators see it: list, show, drop, and take out to try again
``reading``          Entities and their history straight from the tables, for a process that holds no replica
``retention``        Purging of what is old: journal rows, tombstones, quarantined events, operations that ended
``schema``           The schema and its revisions (alembic)
``source_status``    What the engines tell about their sources: one row a source
``statements``       The statements of a commit, written once per engine in its own dialect
``store``            The commit: what one batch changed, in one database transaction, all or nothing
``stored_events``    Events that are kept in the database for later: in quarantine, or parked
``tables``           The tables: one per entity kind, derived from its declaration
``types``            Column types that mean the same on SQLite, PostgreSQL and MariaDB
"""
