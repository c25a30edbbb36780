# SPDX-License-Identifier: Apache-2.0
"""The requests of a follower to the real API of a region: more changes than one answer has room for."""

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
from watcher_sync.assembly.api import make_application
from watcher_sync.client import Gone
from watcher_sync.client.errors import OversizedAnswer
from watcher_sync.cmd.api_server import listen
from watcher_sync.conf import opts
from watcher_sync.extensions.federation.source.options import OPTIONS, read_settings
from watcher_sync.extensions.federation.source.region import Region
from watcher_sync.model.changes import Upsert, Version
from watcher_sync.testing.kinds import builtin_kinds

COUNT = 2_203


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


def test_the_region_answers_with_the_states_of_what_changed(region: Region) -> None:
    found, since, head = [], 0, 1
    while since < head:
        changes = region.changes(since)
        assert not changes.deleted
        found += [msgspec.json.decode(raw) for raw in changes.states["instance"]]
        since, head = changes.next_since, changes.head
    assert head == COUNT
    assert sorted(each["id"] for each in found) == [f"i,{number:04d}" for number in range(COUNT)]
    assert all(each["state"] == "active" and each["versions"]["state"] for each in found)


def test_fewer_entities_come_at_once_where_they_are_too_large_for_one_answer(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watcher_sync.client.transport.MAX_ANSWER_BYTES", 300_000)
    listed = [document.id for page in region.pages("/v1/instances") for document, _ in page.entities]
    assert listed == [f"i,{number:04d}" for number in range(COUNT)]
    assert 0 < len(region.changes(0).states["instance"]) < COUNT
    monkeypatch.setattr("watcher_sync.client.transport.MAX_ANSWER_BYTES", 10)
    with pytest.raises(OversizedAnswer):
        region.changes(0)


def test_a_position_that_the_region_does_not_have_is_gone(region: Region) -> None:
    with pytest.raises(Gone):
        region.changes(COUNT + 1)
