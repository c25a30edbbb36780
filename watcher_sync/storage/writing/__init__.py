# SPDX-License-Identifier: Apache-2.0
"""What a commit writes.

``commits``         One commit: its content, its statements, the protocol of its writers, and its refusals
``entity_rows``     Writes the entities of one kind into their table, and the times when they were last seen
``journal``         The append-only log of applied changes with a gapless, commit-ordered ``seq``
``locked``          A short write under the locked head, for a process without a replica
``source_cursors``  Writes the position of a source outside a commit, and counts epochs
``statements``      The statements of a commit, in the dialect of the database
``store``           Writes one commit in one database transaction
"""
