# SPDX-License-Identifier: Apache-2.0
"""An API that starts before its database answers 503, and serves when the database answers."""

from __future__ import annotations

import pytest

from tests.migrated import migrate
from tests.unit.api.conftest import Client
from tests.waiting import wait_until
from watcher_sync.assembly.api import assemble
from watcher_sync.exceptions import ConfigError, SchemaMissing
from watcher_sync.storage.database import database
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds


@pytest.fixture
def away(conf, tmp_path):
    """Returns the folder without which the database of the configuration is unavailable."""
    conf.set_override("connection", f"sqlite:///{tmp_path / 'away' / 'ws.sqlite'}", group="database")
    conf.set_override("retry_interval", 0, group="database")
    return tmp_path / "away"


@pytest.fixture
def create(conf, away):
    """Creates the database; with the schema, unless the caller wants none."""
    stores = []

    def create(*, schema=True):
        away.mkdir(exist_ok=True)
        stores.append(Store(database.open_database(conf), builtin_kinds()))
        if schema:
            migrate(stores[-1])
        return stores[-1]

    yield create
    for store in stores:
        store.close()
        store.database.dispose()


def test_an_api_without_a_database_answers_503_and_serves_when_the_database_answers(conf, create, problem):
    client = Client(assemble(conf))
    for method in ("GET", "POST"):
        refused = client.simulate_request(method, "/v1/instances")
        problem(refused, 503)
        assert int(refused.headers["retry-after"]) > 0
    create()
    assert client.simulate_get("/v1/instances").status_code == 200


def test_the_health_check_is_503_until_the_database_answers(conf, create):
    client = Client(assemble(conf))
    found = client.simulate_get("/healthcheck")
    assert (found.status_code, "the database is not available" in found.text) == (503, True)
    create()
    wait_until(lambda: client.simulate_get("/healthcheck").status_code == 200, what="a new result")


def test_an_api_without_a_database_still_refuses_other_machines(conf, away, problem):
    client = Client(assemble(conf))
    problem(client.simulate_get("/v1/instances", remote_addr="192.0.2.7"), 403)


@pytest.mark.parametrize(
    ("group", "option", "value"),
    [
        ("database", "connection", "oracle://127.0.0.1/watcher_sync"),
        ("database", "connection", "no url"),
        ("database", "connection", "mysql+nodriver://127.0.0.1/watcher_sync"),
        ("outlet_watch", "auth_strategy", "jwt"),
    ],
)
def test_a_mistake_of_the_configuration_is_an_error_at_once_while_the_database_is_away(
    conf, away, group, option, value
):
    conf.set_override(option, value, group=group)
    with pytest.raises(ConfigError):
        assemble(conf)


def test_a_database_without_a_schema_is_an_error_at_the_start(conf, create):
    create(schema=False)
    with pytest.raises(SchemaMissing, match="db_sync"):
        assemble(conf)


def test_a_database_that_comes_without_a_schema_is_503_until_db_sync(conf, create, problem, caplog):
    client = Client(assemble(conf))
    store = create(schema=False)
    problem(client.simulate_get("/v1/instances"), 503)
    assert client.simulate_get("/healthcheck").status_code == 503
    assert "db_sync" in caplog.text
    migrate(store)
    assert client.simulate_get("/v1/instances").status_code == 200
