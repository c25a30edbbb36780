# SPDX-License-Identifier: Apache-2.0
"""The application over an SQLite file, a client, and events that become its content."""

from __future__ import annotations

import falcon.testing
import pytest
from oslo_config import cfg

from tests.migrated import migrate
from tests.simulated import cloud, nova
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.conf import opts
from watcher_sync.storage.database import database
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds


@pytest.fixture
def conf(tmp_path):
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", f"sqlite:///{tmp_path / 'ws.sqlite'}", group="database")
    conf.set_override("auth_strategy", "noauth", group="api")
    return conf


@pytest.fixture
def store(conf):
    store = Store(database.open_database(conf), builtin_kinds())
    migrate(store)
    yield store
    store.close()
    store.database.dispose()


@pytest.fixture
def cycle(store):
    """A writer beside the API, as an engine is."""
    return CommitCycle(store, store.load(), nova())


@pytest.fixture
def truth(cycle):
    """A cloud of 5 hosts and some instances, committed in batches; what is true of it."""
    events, truth = cloud(seed=7, n=300)
    for start in range(0, len(events), 25):
        cycle.run(Batch(events=events[start : start + 25]))
    return truth


@pytest.fixture
def application(conf, store):
    return make_application(conf, store)


class Client(falcon.testing.TestClient):
    """On this machine."""

    def __init__(self, application):
        # Falcon's client inspects the signature of the application, and a middleware may have none.
        super().__init__(lambda environ, start_response: application(environ, start_response))

    def simulate_request(self, *args, **kwargs):
        kwargs.setdefault("host", "localhost")
        return super().simulate_request(*args, **kwargs)


@pytest.fixture
def client(application):
    return Client(application)


@pytest.fixture
def problem():
    """Checks that an answer is a problem with this status; gives its document."""

    def check(result, status):
        assert result.status_code == status, result.text
        assert result.headers["content-type"] == "application/problem+json"
        assert result.json["status"] == status
        assert result.json["title"]
        return result.json

    return check
