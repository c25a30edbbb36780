# SPDX-License-Identifier: Apache-2.0
"""A write whose transaction the database ended in favour of another one runs again with the whole request."""

from __future__ import annotations

import pytest

from tests.unit.extensions.vnf.api.test_instances import DEMO
from watcher_sync.exceptions import TransactionConflict
from watcher_sync.storage.writing.store import Store

ROW = {"service_type": "vm", "instance_name": "one"}
OWNED = {"id": "given", "project_id": "theirs"}


@pytest.fixture
def conflicts(monkeypatch):
    """The first two commits are ended."""
    left = [2]
    commit = Store.write

    def write(self, *arguments):
        commit(self, *arguments)
        if left[0]:
            left[0] -= 1
            raise TransactionConflict("a deadlock")

    monkeypatch.setattr(Store, "write", write)
    return left


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "body"), [("service_type_instances", ROW), ("vnf_instances", DEMO)])
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_repeated_write_has_the_id_and_the_project_of_the_request(client, store, conflicts, kind, body, method):
    if method == "POST":
        made = client.simulate_post(f"/v1/{kind}", json={**body, **OWNED})
    else:
        made = client.simulate_put(f"/v1/{kind}/given", json={**body, "project_id": "theirs"})
    assert made.status_code == 201, made.text
    assert conflicts == [0]
    assert {name: made.json[name] for name in OWNED} == OWNED
    (stored,) = client.simulate_get(f"/v1/{kind}?all_projects=true").json[kind]
    assert {name: stored[name] for name in OWNED} == OWNED
