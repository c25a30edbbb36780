# SPDX-License-Identifier: Apache-2.0
"""The commit's side of the database: tables, the commit's transaction, leases, and what engines share.

``database``  The database: engine, sessions, dialects, time, and what is tried again
``groups``    What engines agree on: leases, memberships, and the state of sources
``schema``    The tables, and the revisions that make them
``stored``    Events set aside, and how long rows remain
``writing``   What a commit writes

``drifts``       Differences between model and live system, since when they are, and the end of those that are healed
``epochs``       Recognises a database that went back in time
``loading``      Loads the model from the tables
``table_model``  The model as the tables have it, read one entity at a time
"""
