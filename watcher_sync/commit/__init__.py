# SPDX-License-Identifier: Apache-2.0
"""The commit cycle: one batch of events through dispatch, model and database transaction.

``authorisation``   Decides which source may bring which events
``awaited``         The entities that parked events wait for, as one commit cycle knows them
``batch``           A batch of events on its way through a commit cycle
``batch_dispatch``  Calls the handlers of a batch's events, and stages their changes
``cycle``           Dispatches, commits and publishes one batch of events
``direct``          The commit cycle of a process without a replica, inside one short transaction
``doubts``          Entities whose last events may have come in another order than they happened
``entity_repair``   Repairs of single entities by an administrator: reset versions, and undelete
``evaluation``      The interface of an evaluator, whose changes join the commit of a batch
``failure_log``     Logs why events go to quarantine, at limited rates
``in_hand``         The event that a cycle dispatches now, for a watchdog in another thread
``last_seen``       Writes at intervals when entities were last seen
``pipeline``        Dispatches each batch while the database writes the one before it
``replay``          Commits recorded or quarantined events outside a running engine
``stats``           Counts the outcomes of events and measures commits
``vnf_evaluation``  Evaluates the VNF instances that a batch concerns, in the commit of the batch
"""
