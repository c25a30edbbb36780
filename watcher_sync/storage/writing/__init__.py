# SPDX-License-Identifier: Apache-2.0
"""What a commit writes.

``commit_store``    The protocol that a commit cycle writes through
``commits``         Makes the statements of one commit
``entity_rows``     Writes the entities of one kind into their table
``journal``         The append-only log of applied changes with a gapless, commit-ordered ``seq``
``last_seen``       Reads and writes the times when entities were last seen
``locked``          A short write under the locked head, for a process without a replica
``refusals``        Why a commit may not be written
``source_cursors``  Writes the position of a source outside a commit, and counts epochs
``statements``      The statements of a commit, in the dialect of the database
``store``           Writes one commit in one database transaction
"""
