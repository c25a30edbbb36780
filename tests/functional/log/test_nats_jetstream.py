# SPDX-License-Identifier: Apache-2.0
"""The driver ``nats_jetstream`` against each NATS server of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.functional.log.jetstream_streams import LogReader, at, change, log_of, make_outlet, snapshot
from tests.functional.log.publishing import publish
from tests.functional.sources.jetstream import Dcm, dcm_of
from tests.services.servers import Server, nats_programs, private_nats
from tests.waiting import deadline, wait_until
from watcher_sync.extensions.log.base import DELETED, ChangeTooLarge, OutletDeposed, OutletError
from watcher_sync.extensions.log.nats_jetstream.outlet import NatsJetStreamOutlet

Make = Callable[..., NatsJetStreamOutlet]


@pytest.fixture(scope="module", params=nats_programs())
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with private_nats(executable=request.param) as made:
        yield made


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Dcm]:
    with dcm_of(server.url) as made:
        yield made


@pytest.fixture
def log(client: Dcm) -> Iterator[LogReader]:
    with log_of(client) as made:
        yield made


@pytest.fixture
def make(server: Server, log: LogReader) -> Iterator[Make]:
    made: list[NatsJetStreamOutlet] = []

    def one(**options: object) -> NatsJetStreamOutlet:
        made.append(make_outlet([server.url], log.name, **options))
        return made[-1]

    yield one
    for outlet in made:
        outlet.close()


def stores_batches(log: LogReader) -> bool:
    """Whether this server stores a commit as a whole."""
    return bool(log.client.client.connected_server_version.minor >= 12)


def test_changes_are_stored_in_their_order_and_the_next_open_continues_after_the_last(
    make: Make, log: LogReader
) -> None:
    first = make()
    changes = [*snapshot(1, "a", "b/c"), *(change(seq, ends_commit=seq % 3 == 0) for seq in range(2, 1203))]
    assert first.open({}) == {}
    assert publish(first, changes) == {"north": at(1202)}
    records = log.changes()
    assert [record.position for record in records] == [each.seq for each in changes]
    assert [record.data for record in records] == [first.encode(each) for each in changes]
    assert [record.headers["Watcher-Sync-Change"] for record in records[:5]] == [each.change for each in changes[:5]]
    assert records[-1].headers["Nats-Msg-Id"] == "e:1202"
    first.close()
    second = make()
    assert second.open({}) == {"north": at(1202)}
    assert publish(second, [change(1203)]) == {"north": at(1203)}
    assert log.changes()[-1].position == 1203


def test_a_publisher_that_was_overtaken_is_refused_by_the_server(make: Make, log: LogReader) -> None:
    frozen, other = make(), make()
    frozen.open({})
    publish(frozen, snapshot(1, "a"))
    assert other.open({}) == {"north": at(1)}
    publish(other, [change(2), change(3)])
    with pytest.raises(OutletDeposed, match=r"last sequence is 5, not 3; .*: wrong last sequence: 5 \(10071\)$"):
        publish(frozen, [change(4), change(5)])
    assert [record.position for record in log.changes()] == [1, 1, 1, 2, 3]
    frozen.close()
    assert frozen.open({"north": at(1)}) == {"north": at(3)}


def test_a_publisher_whose_changes_another_one_has_published_is_deposed(make: Make, log: LogReader) -> None:
    frozen, other = make(), make()
    frozen.open({})
    publish(frozen, snapshot(1, "a"))
    other.open({})
    changes = [change(seq) for seq in range(2, 40)]
    publish(other, changes)
    with pytest.raises(OutletDeposed):
        publish(frozen, changes)
    assert [record.position for record in log.changes()] == [1, 1, 1, *range(2, 40)]


def test_a_snapshot_replaces_the_model_which_has_the_sequences_of_the_changes(make: Make, log: LogReader) -> None:
    outlet = make()
    outlet.open({})
    publish(outlet, [*snapshot(1, "a", "b"), change(2, "c"), change(3, "c")])
    publish(outlet, snapshot(4, "b"))
    wait_until(lambda: set(log.model()) == {"_snapshot.begin", "instance.b", "_snapshot.end"})
    publish(outlet, [change(5, "d"), change(6, "b")])
    wait_until(lambda: log.state(log.model_name).last_seq == log.state().last_seq)
    by_sequence = {record.sequence: record for record in log.changes()}
    model = log.model()
    assert set(model) == {"_snapshot.begin", "_snapshot.end", "instance.d", "instance.b"}
    assert {record.sequence: record.data for record in model.values()} == {
        sequence: by_sequence[sequence].data for sequence in (7, 9, 10, 11)
    }


def test_a_model_that_a_process_did_not_clean_is_cleaned_by_the_next_open(make: Make, log: LogReader) -> None:
    outlet = make()
    outlet.open({})
    publish(outlet, snapshot(1, "a"))
    publish(outlet, snapshot(2, "b"))
    outlet.close()  # before the copy is compared
    assert make().open({}) == {"north": at(2)}
    wait_until(lambda: set(log.model()) == {"_snapshot.begin", "instance.b", "_snapshot.end"})


def test_half_of_a_snapshot_is_not_durable(make: Make, log: LogReader) -> None:
    outlet = make()
    outlet.open({})
    assert publish(outlet, snapshot(1, "a")[:-1]) == {}
    assert outlet.open({}) == {"north": at(1)._replace(is_in_snapshot=True)}
    assert publish(outlet, snapshot(2, "a")) == {"north": at(2)}
    assert outlet.open({}) == {"north": at(2)}


def test_where_all_changes_are_too_old_the_model_has_the_position(make: Make, log: LogReader) -> None:
    outlet = make(max_age=1)
    outlet.open({})
    publish(outlet, [*snapshot(1, "a"), change(2, "b")])
    wait_until(lambda: log.state().messages == 0 and log.state(log.model_name).last_seq == 4)
    assert outlet.open({}) == {"north": at(2)}
    publish(outlet, [change(3, "b")])
    assert outlet.open({}) == {"north": at(3)}


def test_where_the_last_message_has_expired_the_model_tells_the_epoch(make: Make, log: LogReader) -> None:
    outlet = make()
    outlet.open({})
    publish(outlet, [*snapshot(1, "a"), change(2)])
    outlet.close()
    wait_until(lambda: log.state(log.model_name).last_seq == 4)
    for stream in (log.name, log.model_name):
        log.client.do(log.client.js.delete_msg(stream, 4))
    found = outlet.open({"north": at(2)})["north"]
    assert (found.epoch, found.is_in_snapshot) == ("e", True)


def test_a_model_without_a_whole_snapshot_makes_the_next_open_ask_for_one(make: Make, log: LogReader) -> None:
    outlet = make()
    outlet.open({})
    publish(outlet, [*snapshot(1, "a"), change(2, "b")])
    outlet.close()
    wait_until(lambda: log.state(log.model_name).last_seq == 4)
    log.client.do(log.client.js.purge_stream(log.model_name, seq=3))
    assert outlet.open({"north": at(2)}) == {"north": at(2)}
    assert outlet.lacks_snapshot
    publish(outlet, snapshot(2, "a", "b"))
    outlet.close()
    assert outlet.open({"north": at(2)}) == {"north": at(2)}
    assert not outlet.lacks_snapshot
    log.client.delete_stream(log.model_name)
    assert outlet.open({"north": at(2)}) == {"north": at(2)}
    assert outlet.lacks_snapshot


def test_a_model_that_lost_a_message_of_its_snapshot_is_emptied_and_the_limits_are_named(
    make: Make, log: LogReader
) -> None:
    outlet = make(max_bytes=1_000_000)
    outlet.open({})
    parts = snapshot(1, "a", "b", "c")
    publish(outlet, parts[:-1])
    wait_until(lambda: log.state(log.model_name).last_seq == 4)
    log.client.do(log.client.js.delete_msg(log.model_name, 3))
    publish(outlet, parts[-1:])
    problem = rf"{log.model_name} has 4 messages, and its snapshot had 5: .* max_bytes is 1000000"
    with pytest.raises(OutletError, match=problem):
        wait_until(outlet.verify)  # it returns nothing
    assert log.model() == {}
    assert outlet.open({}) == {"north": at(1)}
    assert outlet.lacks_snapshot


def test_a_verification_names_what_is_wrong_with_the_streams(make: Make, log: LogReader) -> None:
    outlet = make()
    outlet.open({})
    publish(outlet, [*snapshot(1, "a"), change(2)])
    outlet.verify()
    log.client.delete_stream(log.model_name)
    with pytest.raises(OutletError, match=f"the stream {log.model_name} does not exist"):
        outlet.verify()
    log.client.do(log.client.js.purge_stream(log.name))
    assert outlet.open({}) == {}  # nothing has the last message
    publish(outlet, [*snapshot(2, "a"), change(3)])
    outlet.verify()
    wait_until(lambda: log.state(log.model_name).last_seq == log.state().last_seq)
    log.client.do(log.client.js.purge_stream(log.model_name))
    with pytest.raises(OutletError, match=f"the stream {log.model_name} lacks a snapshot"):
        outlet.verify()
    log.client.publish(b"foreign", subject=f"{log.name}.north.instance.a")
    with pytest.raises(OutletDeposed, match=f"the stream {log.name} ends at 9, not at 8"):
        outlet.verify()
    log.client.do(log.client.js.update_stream(log.config().evolve(max_msgs_per_subject=3)))
    with pytest.raises(OutletError, match="max_msgs_per_subject is 3"):
        outlet.verify()


def test_a_message_of_another_program_makes_the_next_open_ask_for_a_snapshot(make: Make, log: LogReader) -> None:
    outlet = make()
    outlet.open({})
    publish(outlet, snapshot(1, "a"))
    log.client.publish(b"foreign", subject=f"{log.name}.north.instance.a")
    assert outlet.open({"north": at(1)}) == {}


def test_no_reader_sees_half_of_a_commit_where_the_server_stores_batches(make: Make, log: LogReader) -> None:
    outlet = make()
    outlet.open({})
    publish(outlet, snapshot(1, "a"))
    too_large = log.client.client.max_payload
    with pytest.raises(ChangeTooLarge, match="maximum payload exceeded"):
        publish(outlet, [change(2, ends_commit=False), change(3, ends_commit=False), change(4, size=too_large)])
    seen = 3 if stores_batches(log) else 5
    wait_until(lambda: log.state().last_seq >= seen)
    assert outlet.open({}) == {"north": at(1 if stores_batches(log) else 3)}
    assert log.state().last_seq == seen


def test_a_deletion_leaves_the_model_with_the_age_of_the_changes(make: Make, log: LogReader) -> None:
    outlet = make(max_age=1)
    outlet.open({})
    publish(outlet, [*snapshot(1, "a"), change(2, "a", DELETED), change(3, "b")])
    wait_until(lambda: log.state(log.model_name).last_seq == 5)
    if log.config().allow_msg_ttl:
        wait_until(lambda: "instance.a" not in log.model())
    assert "instance.b" in log.model()


def test_a_stream_that_is_missing_or_not_fit_is_named_and_never_changed(make: Make, log: LogReader) -> None:
    strict = make(stream_mode="verify")
    with pytest.raises(OutletError, match=f"the stream {log.name} does not exist"):
        strict.open({})
    subject = f"{log.name}.north.>"
    log.client.make_stream(log.name, subject)
    with pytest.raises(OutletError, match=f"the stream {log.name}-model does not exist"):
        strict.open({})
    before = log.config()
    assert make(max_age=5).open({}) == {}
    assert log.config() == before
    assert strict.open({}) == {}
    log.client.delete_stream(log.model_name)
    log.client.make_stream(log.model_name, f"{log.name}.other")
    with pytest.raises(OutletError, match=f"the stream {log.name}-model is not fit: it is no mirror of all of"):
        strict.open({})


def test_without_a_server_a_call_fails_in_time_and_later_the_streams_have_the_position(
    own_nats: Server,
) -> None:
    outlet = make_outlet([own_nats.url], "kills", timeout=deadline(2))
    outlet.open({})
    publish(outlet, snapshot(1, "a"))
    own_nats.kill()
    for work in (lambda: publish(outlet, [change(2)]), lambda: outlet.open({})):
        with pytest.raises(OutletError):
            work()
    own_nats.start()
    assert outlet.open({}) == {"north": at(1)}
    assert publish(outlet, [change(2)]) == {"north": at(2)}
    outlet.close()


@pytest.mark.parametrize("missing", ["$JS.API.STREAM.MSG.GET.>", "permitted.>"])
def test_a_permission_that_is_missing_is_named(missing: str) -> None:
    users = f"""accounts {{ A {{ jetstream: enabled, users: [
        {{ user: all, password: p }},
        {{ user: outlet, password: p, permissions: {{ publish: {{ deny: "{missing}" }} }} }}
    ] }} }}"""
    with private_nats(users) as server:
        first = make_outlet([server.url], "permitted", user="all", password="p")
        first.open({})
        publish(first, snapshot(1, "a"))
        first.close()
        outlet = make_outlet([server.url], "permitted", user="outlet", password="p", timeout=deadline(2))
        with pytest.raises(OutletError, match="permissions violation for publish"):
            outlet.open({})
            publish(outlet, [change(2)])
        outlet.close()
