# SPDX-License-Identifier: Apache-2.0
"""A write that waits too long for the locks of other writes is a conflict, and not an outage of the database."""

from __future__ import annotations

from collections.abc import Iterator

import falcon.testing
import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.clusters import one_vdu
from watcher_sync.assembly.api import make_application
from watcher_sync.assembly.store import open_store_of_server
from watcher_sync.conf import opts
from watcher_sync.storage.database import database
from watcher_sync.storage.writing import journal
from watcher_sync.storage.writing.store import Store

PATH = "/v1/vnf_instances/v1"


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
def conf(request: pytest.FixtureRequest) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", request.getfixturevalue(f"migrated_{request.param}_url"), group="database")
    conf.set_override("idle_transaction_timeout", 60, group="database")  # that of the test's own transaction
    conf.set_override("commit_timeout", 2, group="database")
    conf.set_override("auth_strategy", "noauth", group="api")
    return conf


@pytest.fixture
def store(conf: cfg.ConfigOpts) -> Iterator[Store]:
    store = open_store_of_server(conf)
    yield store
    store.close()
    store.database.dispose()


@pytest.fixture
def other(conf: cfg.ConfigOpts) -> Iterator[sa.Connection]:
    """A connection of another process."""
    engine = database.open_database(conf)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_a_write_that_waits_for_the_head_is_a_conflict_with_a_time_to_retry(
    conf: cfg.ConfigOpts, store: Store, other: sa.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_RETRY_SECONDS", 0.5)
    client = falcon.testing.TestClient(make_application(conf, store), headers={"Host": "localhost"})
    with other.begin():
        journal.lock_head(other, store.tables)
        answer = client.simulate_put(PATH, json=one_vdu())
        assert (answer.status_code, answer.headers.get("retry-after")) == (409, "1"), answer.text
        assert "nothing was written" in answer.json["detail"]
    assert client.simulate_get(PATH).status_code == 404
    assert client.simulate_put(PATH, json=one_vdu()).status_code == 201
