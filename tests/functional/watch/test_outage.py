# SPDX-License-Identifier: Apache-2.0
"""A database that is away ends no stream, and an identity service that is away leaves no error."""

from __future__ import annotations

import gc

import grpc
import pytest

from tests.functional.storage.conftest import opened
from tests.functional.watch.clients import WatchClient, channel_to
from tests.functional.watch.serving import Serving, Tokens, joined, serving
from tests.functional.webhooks.subscribing import Instances
from tests.migrated import migrate
from tests.services.servers import Server
from tests.waiting import wait_until
from watcher_sync.testing.kinds import builtin_kinds


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
        client.wait_for(head, 60)
        assert client.sequences == list(range(1, head + 1))
        assert client.status is None
        assert late.status in (None, grpc.StatusCode.UNAVAILABLE)
        for each in (client, late):
            each.close()
    for each_store in (store, writer):
        each_store.close()
        each_store.database.dispose()


def test_a_client_that_goes_while_the_identity_service_is_away_leaves_no_error(
    site: Serving, tokens: Tokens, channel: grpc.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    tokens.slow, tokens.is_available = frozenset({"admin"}), False
    client = WatchClient(channel).subscribe("admin", after=0)
    wait_until(lambda: tokens.checked)
    client.close()
    wait_until(lambda: site.worker.stats.streams == 0)
    tokens.answers.set()
    assert WatchClient(channel).subscribe("admin", after=0).wait_for_status() is grpc.StatusCode.UNAVAILABLE
    gc.collect()
    assert "never retrieved" not in caplog.text
