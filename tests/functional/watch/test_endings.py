# SPDX-License-Identifier: Apache-2.0
"""With which status a stream ends, and that no other stream ends with it."""

from __future__ import annotations

import time

import grpc
import pytest
import sqlalchemy as sa

from tests.functional.watch.clients import SELF_LINK, WatchClient, channel_to
from tests.functional.watch.dialect import AGENT_STATUS, METHOD
from tests.functional.watch.serving import Serving, Tokens, admin, joined, reader_of, serving
from tests.functional.webhooks.subscribing import Instances
from tests.waiting import deadline, wait_until
from watcher_sync.storage.writing.store import Store

CODE = grpc.StatusCode
LIFE_SECONDS = 1.0
"""How long a token is valid after its check on an idle machine. The next request of its stream follows at once."""
OTHER = "/management/v1alpha1/watchtopics/other"


@pytest.fixture
def any_migrated_url(one_migrated_url: str) -> str:
    """Where the changes are stored does not matter to the protocol."""
    return one_migrated_url


def test_a_missing_or_bad_token_is_unauthenticated(channel: grpc.Channel) -> None:
    for token in ("", "nonsense"):
        assert WatchClient(channel).subscribe(token).wait_for_status() == CODE.UNAUTHENTICATED


def test_the_token_of_the_metadata_counts_if_the_request_has_none(site: Serving, channel: grpc.Channel) -> None:
    client = WatchClient(channel, token="admin").subscribe("")
    joined(site, 1)
    client.close()
    assert WatchClient(channel, token="admin").subscribe("nonsense").wait_for_status() == CODE.UNAUTHENTICATED


def test_a_caller_without_the_right_is_denied(tokens: Tokens, channel: grpc.Channel) -> None:
    tokens.callers["none"] = admin(may_subscribe=False)
    assert WatchClient(channel).subscribe("none").wait_for_status() == CODE.PERMISSION_DENIED


def test_an_unknown_topic_is_not_found(channel: grpc.Channel) -> None:
    client = WatchClient(channel).subscribe("admin", self_link=OTHER)
    assert client.wait_for_status() == CODE.NOT_FOUND
    assert OTHER in client.details


def test_a_new_topic_is_seen_at_once_and_a_deleted_one_ends_its_streams(site: Serving, channel: grpc.Channel) -> None:
    site.topics.put(OTHER)
    stays, ends = WatchClient(channel).subscribe("admin"), WatchClient(channel).subscribe("admin", self_link=OTHER)
    joined(site, 2)
    del site.topics.topics[OTHER]
    assert ends.wait_for_status() == CODE.NOT_FOUND
    assert stays.status is None
    stays.close()


def test_a_topic_that_was_made_again_ends_the_streams_of_the_first(site: Serving, channel: grpc.Channel) -> None:
    client = WatchClient(channel).subscribe("admin")
    joined(site, 1)
    site.topics.put(SELF_LINK)
    assert client.wait_for_status() == CODE.NOT_FOUND


def test_a_refresh_with_another_topic_is_an_invalid_argument(site: Serving, channel: grpc.Channel) -> None:
    client = WatchClient(channel).subscribe("admin")
    joined(site, 1)
    client.refresh("admin", OTHER)
    assert client.wait_for_status() == CODE.INVALID_ARGUMENT


def test_bytes_that_are_no_request_are_an_invalid_argument(channel: grpc.Channel) -> None:
    call = channel.stream_stream(METHOD)(iter([b"\xff\xff"]))
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    assert caught.value.code() == CODE.INVALID_ARGUMENT


def test_a_purged_position_is_out_of_range_with_the_bounds(site: Serving, store: Store, channel: grpc.Channel) -> None:
    head = Instances(store).write(range(50))
    wait_until(lambda: site.worker.stats.position == head)
    with store.database.begin() as connection:
        connection.execute(sa.delete(store.tables.journal).where(store.tables.journal.c.seq <= 20))
    with serving(store) as cold, channel_to(cold.port) as other:
        for after in (0, 19, head + 5):
            client = WatchClient(other).subscribe("admin", after=after)
            assert client.wait_for_status() == CODE.OUT_OF_RANGE
            assert client.trailers["min-sequence-id"] == "21"
            assert client.trailers["max-sequence-id"] == str(head)
        client = WatchClient(other).subscribe("admin", after=20)
        client.wait_for(head - 20)
        client.close()


def test_a_refreshed_token_keeps_the_stream_and_an_expired_one_ends_it(store: Store, tokens: Tokens) -> None:
    tokens.lives = {"t1": deadline(LIFE_SECONDS), "t2": 600.0, "t3": 0.1}
    with serving(store, tokens, expiry_grace=1.0) as site, channel_to(site.port) as channel:
        kept = WatchClient(channel).subscribe("admin")
        joined(site, 1)
        kept.refresh("t1")
        kept.refresh("t2")
        wait_until(lambda: "t2" in tokens.expiries)
        ended = WatchClient(channel).subscribe("t1")
        assert ended.wait_for_status() == CODE.UNAUTHENTICATED
        assert "expired" in ended.details
        assert time.time() > tokens.expiries["t1"] + 0.9
        head = Instances(store).write(range(3))
        kept.wait_for(head)
        kept.refresh("t3")
        assert kept.wait_for_status() == CODE.UNAUTHENTICATED
        assert "expired" in kept.details
        assert time.time() > tokens.expiries["t3"] + 0.9


def test_a_refresh_with_a_bad_token_ends_the_stream_at_once(site: Serving, channel: grpc.Channel) -> None:
    client = WatchClient(channel).subscribe("admin")
    joined(site, 1)
    client.refresh("nonsense")
    assert client.wait_for_status() == CODE.UNAUTHENTICATED


def test_a_refresh_with_fewer_rights_shows_less(
    site: Serving, store: Store, tokens: Tokens, channel: grpc.Channel
) -> None:
    instances = Instances(store)
    client = WatchClient(channel).subscribe("admin")
    witness = WatchClient(channel).subscribe("admin")
    joined(site, 2)
    head = instances.write(range(3))
    client.wait_for(head)
    client.refresh("q")
    wait_until(lambda: tokens.checked.count("q") == 1)
    client.refresh("q")  # The first refresh has taken effect when the second one is checked.
    wait_until(lambda: tokens.checked.count("q") == 2)
    witness.wait_for(instances.write(range(3)))
    assert client.sequences == list(range(1, head + 1))
    client.refresh("p")
    wait_until(lambda: tokens.checked.count("p") == 1)
    client.refresh("p")
    wait_until(lambda: tokens.checked.count("p") == 2)
    instances.write(range(3))
    client.wait_for(head + 1)
    for each in (client, witness):
        each.close()


def test_an_outage_of_the_identity_service_ends_no_stream_before_its_token(store: Store, tokens: Tokens) -> None:
    tokens.lives = {"t1": 600.0, "t2": 600.0, "t3": deadline(LIFE_SECONDS)}
    with serving(store, tokens, expiry_grace=0.5) as site, channel_to(site.port) as channel:
        recovers = WatchClient(channel).subscribe("t1")
        joined(site, 1)
        tokens.is_available = False
        recovers.refresh("t2")
        wait_until(lambda: tokens.checked.count("t2") > 2)
        assert WatchClient(channel).subscribe("t1").wait_for_status() == CODE.UNAVAILABLE
        tokens.is_available = True
        wait_until(lambda: "t2" in tokens.expiries)
        ends = WatchClient(channel).subscribe("t3")
        wait_until(lambda: "t3" in tokens.expiries)
        tokens.is_available = False
        assert ends.wait_for_status() == CODE.UNAUTHENTICATED  # no refresh of it is under way
        recovers.wait_for(Instances(store).write(range(2)))
        recovers.close()


def test_an_expiry_during_an_outage_is_unavailable_and_not_unauthenticated(store: Store, tokens: Tokens) -> None:
    tokens.lives, tokens.unavailable = {"t1": deadline(LIFE_SECONDS)}, frozenset({"t2"})
    # The second check follows so soon that no pause of the machine is between the two, and the expiry before it.
    limits = {"expiry_grace": 0.5, "token_retry_interval": 0.005}
    with serving(store, tokens, **limits) as site, channel_to(site.port) as channel:
        client = WatchClient(channel).subscribe("admin")
        joined(site, 1)
        client.refresh("t1")
        client.refresh("t2")
        assert client.wait_for_status() == CODE.UNAVAILABLE
        assert tokens.checked.count("t2") > 1


def test_an_expiry_while_a_check_does_not_return_is_unavailable(store: Store, tokens: Tokens) -> None:
    tokens.lives, tokens.slow = {"t1": deadline(LIFE_SECONDS)}, frozenset({"t2"})
    with serving(store, tokens, expiry_grace=0.5) as site, channel_to(site.port) as channel:
        client = WatchClient(channel).subscribe("admin")
        joined(site, 1)
        try:
            client.refresh("t1")
            client.refresh("t2")
            assert client.wait_for_status() == CODE.UNAVAILABLE
        finally:
            tokens.answers.set()


def test_first_requests_of_one_address_wait_their_turn_and_delay_no_refresh(
    site: Serving, tokens: Tokens, channel: grpc.Channel
) -> None:
    client = WatchClient(channel).subscribe("admin")
    joined(site, 1)
    tokens.slow = frozenset({"slow"})
    others = []
    try:
        others = [WatchClient(channel).subscribe("slow") for _ in range(20)]
        wait_until(lambda: site.worker.stats.streams == 21 and tokens.checked.count("slow") >= 4)
        client.refresh("p")
        client.refresh("q")  # The first refresh has taken effect when the second one is checked.
        wait_until(lambda: "q" in tokens.checked)
        others.pop().close()
        wait_until(lambda: site.worker.stats.streams == 20)
        assert tokens.checked.count("slow") == 4
    finally:
        tokens.answers.set()
    assert {each.wait_for_status() for each in others} == {CODE.UNAUTHENTICATED}
    client.close()


def test_a_stream_without_a_subscription_ends_after_its_time_and_not_before(store: Store) -> None:
    with serving(store, first_request_timeout=1.0) as site, channel_to(site.port) as channel:
        began = time.monotonic()
        client = WatchClient(channel)
        client.send(requestType=AGENT_STATUS, agentStatus={"state": "running"})
        assert client.wait_for_status() == CODE.DEADLINE_EXCEEDED
        assert time.monotonic() - began >= 1.0  # wait: a busy machine makes it longer only


def test_limits_of_streams_are_resource_exhausted(store: Store) -> None:
    tokens = Tokens(admin=admin(), p=reader_of("p"))
    with (
        serving(store, tokens, max_streams=3, max_streams_per_identity=2) as site,
        channel_to(site.port) as channel,
    ):
        clients = []
        for count in (1, 2):
            clients.append(WatchClient(channel).subscribe("admin"))
            joined(site, count)
        third = WatchClient(channel).subscribe("admin")
        assert third.wait_for_status() == CODE.RESOURCE_EXHAUSTED
        assert "one caller" in third.details
        clients.append(WatchClient(channel).subscribe("p"))
        joined(site, 3)
        last = WatchClient(channel)
        assert last.wait_for_status() == CODE.RESOURCE_EXHAUSTED
        assert "this process" in last.details
        clients.pop().close()
        wait_until(lambda: site.worker.stats.streams == 2)
        clients.append(WatchClient(channel).subscribe("p"))
        joined(site, 3)
        for client in clients:
            client.close()


def test_a_message_beyond_the_limit_ends_its_stream_only(store: Store) -> None:
    with serving(store, max_request_bytes=4096) as site, channel_to(site.port) as channel:
        stays = WatchClient(channel).subscribe("admin")
        joined(site, 1)
        client = WatchClient(channel).subscribe("x" * 5000)
        assert client.wait_for_status() == CODE.RESOURCE_EXHAUSTED
        assert stays.status is None
        stays.close()


def test_a_stop_ends_all_streams_with_unavailable_within_its_time(store: Store) -> None:
    with serving(store) as site, channel_to(site.port) as channel:
        clients = [WatchClient(channel).subscribe("admin") for _ in range(5)]
        silent = WatchClient(channel)
        joined(site, 5)
        wait_until(lambda: site.worker.stats.streams == 6)
        site.stop()
        for client in (*clients, silent):
            assert client.wait_for_status() == CODE.UNAVAILABLE
            assert "resume elsewhere" in client.details


def test_a_client_that_ends_its_requests_reads_on(site: Serving, store: Store, channel: grpc.Channel) -> None:
    client = WatchClient(channel).subscribe("admin")
    client.end_requests()
    joined(site, 1)
    client.wait_for(Instances(store).write(range(3)))
    client.close()
    empty = WatchClient(channel)
    empty.end_requests()
    assert empty.wait_for_status() == CODE.INVALID_ARGUMENT


def test_a_client_that_goes_leaves_nothing_behind(site: Serving, channel: grpc.Channel) -> None:
    clients = [WatchClient(channel).subscribe("admin") for _ in range(10)]
    joined(site, 10)
    for client in clients:
        client.close()
    wait_until(lambda: site.worker.stats.streams == 0)
    joined(site, 0)
