# SPDX-License-Identifier: Apache-2.0
"""The API serves the other kinds while one of ours cannot be used, as it does with a plugin's."""

from __future__ import annotations

import pytest

from tests.unit.api.conftest import Client
from watcher_sync.assembly.api import make_application
from watcher_sync.storage.database import database
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

PATHS = ("compute_model", "compute_nodes", "drifts", "graph?root=workload/a", "leases", "search?text=a", "topology")


@pytest.mark.parametrize("name", builtin_kinds())
def test_the_api_works_without_a_kind_of_ours(conf, store, truth, name):
    lacking = Store(database.open_database(conf), builtin_kinds().without({name}))
    client = Client(make_application(conf, lacking))
    plurals = [each.plural for each in builtin_kinds().values()]
    lost = [plural for plural in plurals if client.simulate_get(f"/v1/{plural}").status_code == 404]
    assert lost == [builtin_kinds()[name].plural]
    assert [path for path in PATHS if client.simulate_get(f"/v1/{path}").status_code >= 500] == []
    lacking.dispose()
