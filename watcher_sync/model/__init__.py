# SPDX-License-Identifier: Apache-2.0
"""The model: entity kinds, the replica in memory, and the ordering guard.

``changes``     What a handler may ask of the model, and what came of it
``entities``    The built-in kinds: hosts, instances, the aggregates that give hosts their availability zone
``kinds``       How a kind of entity is declared, once; table, JSON and schema are derived from the declaration
``kubernetes``  The kinds of Kubernetes: clusters, workloads, pods, and the VNF instances that are made of them
``model``       The model in memory: a replica of the tables at one journal seq, its *generation*
``overlay``     What a batch did to the indexes so far, as a thin layer over those that it began with
``reader``      What a transaction reads of the committed state that it is based on
``table``       Dictionaries that can be handed to readers without being copied
``transaction`` What one batch of events does to the model, before anything of it is committed
``view``        The read-only face of the model: what handlers, reconcilers and readers see of it
``vnf``         What a VNF instance should be, and what it is: pure functions over registrations
"""
