# SPDX-License-Identifier: Apache-2.0
"""The entities of each kind: lists, items, histories, writes, views.

``changed_states``     ``GET /v1/states``: the states of what changed after a position, for a copy of the model
``differences``        ``GET /v1/diff``: what changed of each entity between two moments
``entity_collection``  What the resources of one kind share
``entity_filters``     The filters of a list: ``field=value``, ``field=op:value``
``entity_item``        Item and history of every kind
``entity_list``        The list of every kind
``graph``              ``/v1/graph`` and ``/v1/impact``: what an entity needs, and what depends on it
``search``             ``GET /v1/search``: entities of all kinds by their names and ids
``topology``           ``/v1/topology``: hosts and clusters with the numbers of their members
``writing``            POST, PUT and DELETE for every kind of which the API owns a facet, within its quota
"""
