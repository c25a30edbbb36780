# SPDX-License-Identifier: Apache-2.0
"""The tables, and the revisions that make them.

``kind_tables``    The tables of kinds, held against their declarations
``outlet_tables``  The tables of subscriptions, their workers and watch topics
``schema``         The schema and its revisions (alembic)
``tables``         The tables: one per entity kind, derived from its declaration
"""
