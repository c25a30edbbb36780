# SPDX-License-Identifier: Apache-2.0
"""The requests of a follower to the real API of a region: a few ids, and more ids than a URL has room for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from oslo_config import cfg

from tests.functional.storage.conftest import opened
from tests.functional.storage.writing import commit, cycle_on
from tests.migrated import migrate
from tests.simulated import told
from watcher_sync.api.app import make_application
from watcher_sync.cmd.api_server import listen
from watcher_sync.conf import opts
from watcher_sync.model.changes import Upsert, Version
from watcher_sync.model.entities import builtin_kinds
from watcher_sync.sources.watch.options import OPTIONS, read_settings
from watcher_sync.sources.watch.region import Region

COUNT = 1_203


@pytest.fixture
def region(tmp_path: Path) -> Iterator[Region]:
    store = migrate(opened(f"sqlite:///{tmp_path / 'region.sqlite'}", builtin_kinds()))
    facets = {"state": {"state": "active"}}
    commit(
        cycle_on(store),
        *(told(n, Upsert("instance", f"i,{n:04d}", Version(f"{n:012d}"), facets)) for n in range(COUNT)),
    )
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("auth_strategy", "noauth", group="api")
    server = listen(make_application(conf, store), "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    conf.register_opts(OPTIONS, group="source_north")
    conf.set_override("endpoint", f"http://127.0.0.1:{server.server_port}", group="source_north")
    try:
        yield Region(read_settings("north", conf.source_north), conf.source_north)
    finally:
        server.shutdown()
        server.server_close()
        store.close()
        store.database.dispose()


@pytest.mark.parametrize("count", [3, 500, COUNT])
def test_the_region_answers_with_the_entities_that_exist(region: Region, count: int) -> None:
    wanted = [f"i,{number:04d}" for number in range(count)]
    pages = list(region.fetch("/v1/instances", [*wanted, "none"]))
    found = [(document.id, msgspec.json.decode(body)) for page in pages for document, body in page.entities]
    assert [entity_id for entity_id, _ in found] == wanted
    assert all(body["state"] == "active" and body["versions"]["state"] for _, body in found)
    assert {page.seq for page in pages} == {COUNT}
    assert len(pages) == (2 if count == COUNT else 1)
