# SPDX-License-Identifier: Apache-2.0
"""/healthcheck says whether the database and the sources are well, to anybody, and says it of nothing else."""

from __future__ import annotations

import datetime

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.migrated import migrate
from tests.unit.engine.asking import ask
from watcher_sync.api.edge import healthcheck
from watcher_sync.api.identity import authentication
from watcher_sync.conf import opts
from watcher_sync.storage.database import database
from watcher_sync.storage.groups.source_status import SourceRow, write_sources
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

JSON = {"HTTP_ACCEPT": "application/json", "REMOTE_ADDR": "192.0.2.7"}


def api(environ, start_response):
    """A stand-in for the API: it answers with the path of the request."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"the API was asked for " + environ["PATH_INFO"].encode()]


@pytest.fixture
def conf(tmp_path):
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", f"sqlite:///{tmp_path / 'ws.sqlite'}", group="database")
    return conf


@pytest.fixture
def store(conf):
    store = Store(database.open_database(conf), builtin_kinds())
    migrate(store)
    yield store
    store.database.dispose()


def told(store, source="nova", age=0.0, **fields):
    """A row of the engine's, so many seconds old."""
    time = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age)
    given = {"engine_group": "g", "host": "h", "pid": 1, "state": "connected", "since": time, "updated_at": time}
    write_sources(store.database, [SourceRow(source=source, **{**given, **fields})])


def test_all_is_well_with_and_without_sources(conf, store):
    for _ in range(2):
        status, body = ask(healthcheck.wrap(api, conf), "/healthcheck", **JSON)
        assert (status, body) == (200, {"detailed": False, "reasons": ["OK", "OK"]})
        told(store)


def test_a_stale_source_is_503_and_named_and_the_details_stay_inside(conf, store):
    told(store, "nova")
    told(store, "edge", age=61, detail="secret.example")
    status, body = ask(healthcheck.wrap(api, conf), "/healthcheck", **JSON)
    assert (status, body["reasons"]) == (503, ["OK", "stale sources: edge"])


def test_the_operators_limits_are_those_that_count(conf, store):
    told(store, age=61)
    conf.set_override("stale_after", 3600, group="monitoring")
    assert ask(healthcheck.wrap(api, conf), "/healthcheck", **JSON)[0] == 200


def test_a_database_without_tables_is_503_and_details_are_given_where_asked_for(conf):
    conf.register_opts(healthcheck.opts.HEALTHCHECK_OPTS, group="healthcheck")
    conf.set_override("detailed", True, group="healthcheck")
    status, body = ask(healthcheck.wrap(api, conf), "/healthcheck", **JSON)
    assert status == 503
    first = body["reasons"][0]
    assert (first["reason"], "db_sync" in first["details"]) == ("the database is not set up", True)


def test_a_database_without_a_journal_head_is_503(conf, store):
    with store.database.begin() as connection:
        connection.execute(sa.delete(store.tables.journal_head))
    status, body = ask(healthcheck.wrap(api, conf), "/healthcheck", **JSON)
    assert (status, body["reasons"][0]) == (503, "the database is not set up")


def test_an_operator_may_leave_the_sources_out(conf, store):
    told(store, age=61)
    conf.register_opts(healthcheck.opts.HEALTHCHECK_OPTS, group="healthcheck")
    conf.set_override("backends", ["watcher_sync_database"], group="healthcheck")
    assert ask(healthcheck.wrap(api, conf), "/healthcheck", **JSON) == (200, {"detailed": False, "reasons": ["OK"]})


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/", "/v1/instances", "/healthcheck/", "/v1/healthcheck"])
def test_every_other_path_is_the_applications(conf, store, path):
    conf.set_override("auth_strategy", "noauth", group="api")
    application = authentication.wrap(api, conf, {healthcheck.PATH: healthcheck.wrap})
    there, stranger = ({**JSON, "HTTP_HOST": "localhost", "REMOTE_ADDR": at} for at in ("127.0.0.1", "192.0.2.7"))
    assert ask(application, path, **there) == (200, f"the API was asked for {path}")
    assert ask(application, path, **stranger)[0] == 403
    assert ask(application, healthcheck.PATH, **stranger)[0] == 200


def test_a_caller_from_outside_the_allowed_ranges_is_passed_on(conf, store):
    conf.register_opts(healthcheck.opts.HEALTHCHECK_OPTS, group="healthcheck")
    conf.set_override("allowed_source_ranges", ["10.0.0.0/8"], group="healthcheck")
    application = healthcheck.wrap(api, conf)
    assert ask(application, "/healthcheck", **JSON) == (200, "the API was asked for /healthcheck")
    assert "reasons" in ask(application, "/healthcheck", **{**JSON, "REMOTE_ADDR": "10.1.2.3"})[1]


def test_the_database_is_asked_once_a_second_however_many_ask(conf, store):
    now = [100.0]
    backend = healthcheck.Sources(conf, {}, monotonic=lambda: now[0])
    assert backend.healthcheck(80).available
    told(store, age=61)
    now[0] += 0.9
    assert backend.healthcheck(80).available
    now[0] += 0.2
    assert not backend.healthcheck(80).available
