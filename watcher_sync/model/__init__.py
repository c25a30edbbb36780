# SPDX-License-Identifier: Apache-2.0
"""The model: entity kinds, the replica in memory, and the ordering guard.

``changes``          the changes that a handler yields, and the outcomes of an event
``clock``            the limit of times that become part of versions
``declarations``     what a declaration of a kind is written with
``declared_values``  brings what a plugin hands over to the declared types
``delete_guard``     how many deletions are refused at once
``entity_overlay``   the entities of one batch, over the model: reads, staging, what follows, undo
``kinds``            the declaration of a kind; table, JSON and schema follow from it
``loading``          loads the kinds of the installed packages
``model``            the replica of the tables in memory, at one journal seq, and what a batch changed
``overlay``          the changes of a batch to the indexes
``scopes``           which entities exist through one source
``table``            copy-on-write dictionaries and indexes for snapshots
``texts``            messages for people, as every database stores them
``tombstones``       the memory of deleted entities, in short where a deletion is final
``transaction``      the ordering guard: which changes of a batch are admitted
``view``             the read-only faces of the model: for handlers and readers, and for a transaction
``visibility``       documents and deltas without what is hidden from a reader
"""
