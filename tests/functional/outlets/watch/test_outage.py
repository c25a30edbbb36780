# SPDX-License-Identifier: Apache-2.0
"""A database that is away delays the streams and ends none of them."""

from __future__ import annotations

import grpc
import pytest

from tests.functional.engine.driving import wait_until
from tests.functional.outlets.subscribing import Instances
from tests.functional.outlets.watch.clients import WatchClient, channel_to
from tests.functional.outlets.watch.serving import joined, serving
from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from tests.services.servers import Server
from watcher_sync.model.entities import builtin_kinds


@pytest.mark.timeout(90)
def test_streams_outlast_the_database_and_go_on_without_a_gap(
    own_postgresql: Server, caplog: pytest.LogCaptureFixture
) -> None:
    store = migrate(opened(own_postgresql.url, builtin_kinds()))
    with serving(store) as site, channel_to(site.port) as channel:
        client = WatchClient(channel).subscribe("admin", after=0)
        joined(site, 1)
        client.wait_for(Instances(store).write(range(5)))
        own_postgresql.kill()
        wait_until(lambda: "database unavailable" in caplog.text)
        late = WatchClient(channel).subscribe("admin", after=0)
        own_postgresql.start()
        writer = opened(own_postgresql.url, builtin_kinds())
        head = Instances(writer).write(range(10, 15))
        client.wait_for(head, 30)
        assert client.sequences == list(range(1, head + 1))
        assert client.status is None
        assert late.status in (None, grpc.StatusCode.UNAVAILABLE)
        for each in (client, late):
            each.close()
    for each_store in (store, writer):
        each_store.close()
        each_store.database.dispose()
