# SPDX-License-Identifier: Apache-2.0
"""The commit cycle: one batch of events through dispatch, model and database transaction.

``authorisation``    Decides which source may bring which events
``awaited``          The entities that parked events wait for, as one commit cycle knows them
``batch``            A batch of events on its way through a commit cycle
``batch_committer``  Dispatches, commits and publishes one batch of events
``batch_dispatch``   Calls the handlers of a batch's events, stages their changes, and reports failures and slow events
``cycle``            The commit cycle over a replica, which follows the journal and writes last-seen times
``direct``           The commit cycle of a process without a replica, inside one short transaction
``doubts``           Entities whose last events may have come in another order than they happened
``entity_repair``    Repairs of single entities by an administrator: reset versions, and undelete
``evaluation``       The interface of an evaluator, whose changes join the commit of a batch
``pipeline``         Dispatches each batch while the database writes the one before it
``replay``           Commits recorded or quarantined events outside a running engine
``spans``            Spans of committed batches, by OpenTelemetry
``stats``            Counts the outcomes of events and measures commits
``suspects``         Remembers which events were in hand, so that the next process knows what ended this one
"""
