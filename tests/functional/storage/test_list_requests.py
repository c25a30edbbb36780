# SPDX-License-Identifier: Apache-2.0
"""What a list request costs each kind of database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from falcon.testing import TestClient

from tests.functional.api.conftest import config_on
from tests.functional.storage.writing import cycle_on
from tests.simulated import by_facet, told
from watcher_sync.assembly import process
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.writing.store import Store


@pytest.mark.parametrize("query", ["", "state=active&limit=2", "sort=-name&fields=name,host", "versions=true"])
def test_a_list_request_costs_two_statements(store: Store, tmp_path: Path, query: str) -> None:
    changes = [Upsert("instance", f"i{n}", "1", by_facet("instance", state="active", metadata={})) for n in range(3)]
    cycle_on(store).run(Batch(events=[told(1, *changes)]))
    conf = process.make_conf(["--config-file", str(config_on(store, tmp_path))], prog="test")
    application = make_application(conf, store)
    client = TestClient(lambda environ, start_response: application(environ, start_response))
    sent: list[str] = []

    def listen(_connection: Any, _cursor: Any, sql: str, _parameters: Any, _context: Any, _many: bool) -> None:
        sent.append(sql)

    for _ in range(2):  # the first request reads which sources were removed
        sent.clear()
        sa.event.listen(store.database, "before_cursor_execute", listen)
        answer = client.simulate_get("/v1/instances", query_string=query, host="localhost")
        sa.event.remove(store.database, "before_cursor_execute", listen)
        assert answer.status_code == 200
        assert len(answer.json["instances"]) == (2 if "limit" in query else 3)
    statements = [sql for sql in sent if sql != "BEGIN"]
    assert len(statements) == 2, statements
