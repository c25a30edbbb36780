# SPDX-License-Identifier: Apache-2.0
"""Every reader of the model or of the journal, and no writer.

``changed_states``  Reads the present states of the entities that changed after a seq
``differences``     What changed of each entity between two seqs
``entity_reader``   Reads the entities of one kind as JSON text: by id, in pages, or all
``filters``         Conditions on the fields of a kind, with one meaning on all databases
``graph``           The graph of relations around one entity, and the number of entities that need it
``journal_reader``  One thread reads new journal rows for all readers of a process
``journal_signal``  Waits until the journal's head may have moved
``member_states``   The state of an entity as one text, the health that it means, and the number of entities by state
``past``            The model as it was: its moments, its tables, and what a change undid
``reading``         Reads entities and their history from the tables
``row_entities``    The values that fields of entities had at journal rows
``search``          Finds entities by their names and ids
"""
