# SPDX-License-Identifier: Apache-2.0
"""Reconciliation: lists the live systems, finds what notifications lost, and repairs the model.

``base``               The contract of a reconciler, its context and its report
``capacity_provider``  The interface of a capacity provider, for plugins
``drift``              What a live system has, as a view, and where the model differs from it
``entries``            The entries of one listing: odd ones, doubled ones, and what the listing lacks
``listing``            A reconciler that only lists: the base class for those of plugins
``notify``             Sends notifications of our own to listeners on the message bus
``plugins``            The installed reconcilers: entry points
``repair``             Writes what a listing found, unless an event wrote the entity meanwhile
``scheduling``         Runs the reconcilers while the engine leads, and asks whether their inventories are complete
``scope``              One scope: when it is due, whether it runs, its breaker, its results and their metrics
"""
