# SPDX-License-Identifier: Apache-2.0
"""Every pool option of ``[database]`` may be set for every database, as in a configuration that several share."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import opened


@pytest.mark.parametrize("option", ["pool_timeout", "max_pool_size", "max_overflow", "connection_recycle_time"])
def test_a_pool_option_that_a_database_has_no_use_for_does_no_harm(any_database_url, option):
    store = opened(any_database_url, **{option: 5})
    try:
        with store.database.connect() as connection:
            assert connection.execute(sa.text("SELECT 1")).scalar_one() == 1
    finally:
        store.database.dispose()
