# SPDX-License-Identifier: Apache-2.0
"""The commit cycle: one batch of events through dispatch, model and database transaction.

``cycle``          One batch of events through dispatch, model and commit
``direct``         The commit cycle of a process that holds no replica, such as an API worker: one short transaction
``evaluation``     What the cycle asks of an evaluator, whose changes join the commit of a batch
``last_seen``      Writes when entities were last seen, beside the commits
``pipeline``       Batches one after the other, each dispatched while the database works at the one before it
``replay``         Recorded or quarantined events through the commit cycle, outside a running engine
``stats``          What became of the events: the counts that every surface shows
``vnf_evaluation`` Evaluates the VNF instances that a batch concerns, in the commit of the batch
"""
