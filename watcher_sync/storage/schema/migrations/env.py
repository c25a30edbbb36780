# SPDX-License-Identifier: Apache-2.0
"""Alembic runs this: on the connection that the caller gave, inside its transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], target_metadata=None)

with context.begin_transaction():
    context.run_migrations()
