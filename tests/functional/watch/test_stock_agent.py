# SPDX-License-Identifier: Apache-2.0
"""A stock agent finds everything that it needs, under Keystone and with JWTs: REST first, then the stream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.functional.page.serving import served_with
from tests.functional.storage.conftest import on_one_database
from tests.functional.watch.clients import WatchClient, channel_to
from tests.functional.watch.serving import serving
from tests.functional.watch.stock_agent import StockAgent
from tests.functional.watch.test_tokens import MakeToken
from tests.functional.watch.test_tokens import conf as conf
from tests.functional.watch.test_tokens import strategy as strategy
from tests.functional.watch.test_tokens import token as token
from tests.functional.webhooks.subscribing import Instances
from tests.waiting import wait_until
from watcher_sync.conf import opts
from watcher_sync.extensions.watch.callers import make_authenticator
from watcher_sync.extensions.watch.stored import StoredTopics
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

AGENTS = "agents"


class AgentSite:
    """An API and a watch service on one database."""

    def __init__(self, api: str, channel: Any, worker: Any, store: Store) -> None:
        self.api = api
        self.channel = channel
        self.worker = worker
        self.instances = Instances(store)

    def agent(self, token: str, sequence: int = 0) -> StockAgent:
        made = StockAgent(self.api, self.channel, token, sequence)
        made.get_or_create_topic(AGENTS)
        return made

    def subscribed(self, agent: StockAgent) -> WatchClient:
        """The stream of the agent, which has its topic."""
        before = self.worker.stats.subscribed
        stream = agent.register_watch()
        wait_until(lambda: stream.status or self.worker.stats.subscribed > before, what="the subscription")
        assert stream.status is None, stream.details
        return stream


@pytest.fixture
def site(conf: cfg.ConfigOpts, store: Store, token: MakeToken) -> Iterator[AgentSite]:
    authenticator: Any = make_authenticator(conf, builtin_kinds())
    opts.register_database(conf)
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(served_with(conf, store))
        server = stack.enter_context(serving(store, authenticator, topics=StoredTopics(store)))
        yield AgentSite(api, stack.enter_context(channel_to(server.port)), server.worker, store)


@on_one_database
def test_an_agent_that_comes_back_gets_each_event_once_over_rest_and_stream(site: AgentSite, token: MakeToken) -> None:
    first = site.agent(token("admin"))
    head = site.instances.write(range(3))
    first.start_first()
    assert first.sequence == head

    # It comes back after more events than a page has, and more happens between the catch-up and the first request.
    head = site.instances.write(range(130))
    agent = site.agent(token("admin"), first.sequence)
    agent.catch_up()
    assert agent.sequence == head
    missed = site.instances.write(range(2))
    stream = WatchClient(site.channel, token=agent.token).subscribe(f"Bearer {agent.token}", self_link=agent.link)
    stream.wait_for(missed - head)
    live = site.instances.write([1])
    stream.wait_for(live - head)
    sequences = [event["metadata"]["sequenceID"] for event in agent.events] + stream.sequences
    assert sequences == list(range(4, live + 1))
    assert {event.metadata.watchTopicSelfLink for event in stream.events} == {agent.link}
    stream.close()


@on_one_database
def test_an_agent_reads_the_resource_of_each_event_and_refreshes_its_token(site: AgentSite, token: MakeToken) -> None:
    agent = site.agent(token("admin"))
    agent.start_first()
    stream = site.subscribed(agent)
    head = site.instances.write(range(2))
    stream.wait_for(head)
    for event in stream.events:
        found = agent.resource_of(event)
        assert found.keys() == {"metadata", "spec"}
        assert found["metadata"]["id"] == event.payload.metadata.id
    agent.refresh(token("admin"))
    stream.wait_for(site.instances.write([1]))
    assert stream.status is None
    stream.close()


@on_one_database
def test_an_agent_that_jumps_over_a_purge_misses_nothing_after_it(
    site: AgentSite, store: Store, token: MakeToken
) -> None:
    head = site.instances.write(range(5))
    with store.database.begin() as connection:
        connection.execute(sa.delete(store.tables.journal).where(store.tables.journal.c.seq < head))
    agent = site.agent(token("admin"), 1)
    agent.catch_up()
    assert (agent.sequence, agent.events) == (head, [])
    last = site.instances.write(range(2))
    stream = WatchClient(site.channel, token=agent.token).subscribe(f"Bearer {agent.token}", self_link=agent.link)
    stream.wait_for(last - head)
    assert stream.sequences == list(range(head + 1, last + 1))
    stream.close()
