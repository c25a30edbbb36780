# SPDX-License-Identifier: Apache-2.0
"""The model: entity kinds, the replica in memory, and the ordering guard.

``changes``       the changes that a handler yields, and the outcomes of an event
``clock``         the limit of times that become part of versions
``declarations``  what a declaration of a kind is written with
``entities``      the built-in kinds of Nova and DCM
``kinds``         the declaration of a kind; table, JSON and schema follow from it
``kubernetes``    the built-in kinds of Kubernetes, and vnf_instance
``model``         the replica of the tables in memory, at one journal seq
``overlay``       the changes of a batch to the indexes
``reader``        what a transaction reads of the committed state under it
``table``         copy-on-write dictionaries and indexes for snapshots
``transaction``   the changes of one batch, with the ordering guard
``view``          the read-only interface of the model
``vnf``           evaluation of VNF instances against their registration
"""
