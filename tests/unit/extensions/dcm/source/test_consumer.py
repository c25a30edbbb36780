# SPDX-License-Identifier: Apache-2.0
"""A message that was delivered often is emitted alone, and its neighbours are delivered once."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace

import msgspec
import pytest

from watcher_sync.events import Event
from watcher_sync.extensions.dcm.source.consumer import EXPIRES_SECONDS, PullConsumer
from watcher_sync.extensions.dcm.source.in_flight import JetStreamInFlight
from watcher_sync.extensions.dcm.source.isolation import ConnectionLosses, RedeliveryIsolation
from watcher_sync.transports.nats.connection import Listen
from watcher_sync.transports.nats.messages import ACK, NatsMessage

BATCH = 10
LIMIT = 5


class Line:
    """A connection: what is asked for over it, and what the server says."""

    max_payload = 1_048_576

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.requests: list[dict[str, int]] = []
        self._listen: Listen | None = None

    def new_inbox(self) -> str:
        return "_INBOX.x"

    async def listen(self, subject: str, listener: Listen) -> None:
        self._listen = listener

    async def publish(self, subject: str, payload: bytes, reply: str) -> None:
        self.requests.append(msgspec.json.decode(payload))
        self.asked.append(self.requests[-1]["batch"])

    def bring(self, *messages: tuple[int, int]) -> None:
        """:param messages: sequence and deliveries of each."""
        assert self._listen is not None
        for sequence, deliveries in messages:
            reply = f"$JS.ACK.dcm-status.watcher-sync.{deliveries}.{sequence}.{sequence}.1.0"
            assert self._listen(NatsMessage("dcm.vm", reply, b"")) is None

    def exceed(self, number: int, left: int) -> None:
        assert self._listen is not None
        headers = {
            "Status": "409",
            "Description": "Message Size Exceeds MaxBytes",
            "Nats-Pending-Messages": str(left),
        }
        assert self._listen(NatsMessage(f"_INBOX.x.{number}", "", b"", headers)) is None

    def expire(self, left: int) -> None:
        assert self._listen is not None
        headers = {"Status": "408", "Description": "Request Timeout", "Nats-Pending-Messages": str(left)}
        assert self._listen(NatsMessage("_INBOX.x.1", "", b"", headers)) is None


class Pulled:
    """A consumer on a line, and the engine at its end.

    :param slow_start: as after a start of the process, not after a mere loss of the connection.
    """

    def __init__(self, *, slow_start: bool = False) -> None:
        self.line = Line()
        self.losses = ConnectionLosses()
        self.in_flight = JetStreamInFlight(threading.Event())
        self.isolation = RedeliveryIsolation("dcm", limit=LIMIT, batch=BATCH, slow_start=slow_start)
        settings = SimpleNamespace(pull_subject="next", batch=BATCH, max_bytes=8_388_608)
        self.consumer = PullConsumer(
            self.line,  # type: ignore[arg-type]
            settings,  # type: ignore[arg-type]
            self.in_flight,
            self.isolation,
            receive=lambda message: 1,
            losses=self.losses,
            wake=lambda: None,
        )
        asyncio.run(self.consumer.begin())
        self.ask()

    def ask(self) -> None:
        asyncio.run(self.consumer.request())

    def take(self) -> list[int]:
        """The sequences that are handed over."""
        taken = self.in_flight.take(100, 0.0) if self.in_flight.unemitted_count() else None
        return [message.sequence for _, message in taken or ()]

    def settle(self, *sequences: int) -> None:
        self.in_flight.settle([Event(id="e", type="t", source="dcm", sequence=(1, n)) for n in sequences], None)
        assert [payload for _, payload in self.in_flight.settlements()] == [ACK] * len(sequences)
        self.ask()


@pytest.fixture
def pulled() -> Pulled:
    return Pulled()


def test_nothing_is_requested_while_a_message_is_isolated_and_its_neighbours_are_emitted(
    pulled: Pulled,
) -> None:
    assert pulled.line.asked == [BATCH, BATCH]
    pulled.line.bring((1, 1), (2, LIMIT + 1), (3, LIMIT), *((n, 1) for n in range(4, 15)))
    pulled.ask()
    assert pulled.take() == [1, *range(3, 15)]
    pulled.settle(1, *range(3, 15))
    assert (pulled.take(), len(pulled.line.asked)) == ([], 2), "six are still asked for"
    pulled.line.bring(*((n, 1) for n in range(15, 21)))
    pulled.ask()
    assert pulled.take() == list(range(15, 21))
    assert pulled.take() == [], "its neighbours are in the engine's hands"
    pulled.settle(*range(15, 21))
    assert (pulled.take(), len(pulled.line.asked)) == ([2], 2)
    pulled.settle(2)
    assert pulled.line.asked == [BATCH, BATCH, 1], "the next may be delivered often as well"
    pulled.line.bring((21, 1))
    assert pulled.take() == [21]
    pulled.ask()
    assert pulled.line.asked == [BATCH, BATCH, 1, BATCH, BATCH]


def test_an_isolated_message_is_emitted_when_the_requests_beside_it_have_expired(pulled: Pulled) -> None:
    pulled.line.bring((1, LIMIT + 1))
    pulled.line.expire(9)
    pulled.ask()
    assert pulled.take() == []
    pulled.line.expire(10)
    pulled.ask()
    assert pulled.take() == [1]


def test_what_is_left_of_a_request_that_ended_without_a_word_is_not_counted(
    pulled: Pulled, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled.line.bring((1, 1))
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + EXPIRES_SECONDS / 2)
    pulled.line.bring(*((n, 1) for n in range(2, 12)))
    pulled.take()
    pulled.settle(*range(1, 12))
    assert pulled.line.asked == [BATCH] * 3, "nine and ten are asked for"
    monkeypatch.setattr(time, "monotonic", lambda: now + EXPIRES_SECONDS + 2)
    pulled.ask()
    assert pulled.line.asked == [BATCH] * 4, "the nine are not counted any more"
    monkeypatch.setattr(time, "monotonic", lambda: now + 2 * EXPIRES_SECONDS)
    pulled.ask()
    assert pulled.line.asked == [BATCH] * 5


@pytest.mark.parametrize(("deliveries", "order"), [(LIMIT + 1, [9, 5, 1]), (LIMIT + 2, [1, 5, 9])])
def test_several_isolated_messages_are_emitted_one_by_one_in_the_opposite_order_each_time(
    pulled: Pulled, deliveries: int, order: list[int]
) -> None:
    pulled.line.bring((5, deliveries), (1, deliveries), (9, deliveries))
    pulled.line.expire(7)
    pulled.line.expire(10)
    pulled.ask()
    for number in order:
        assert pulled.take() == [number]
        pulled.ask()
        assert pulled.take() == []
        pulled.settle(number)
    assert pulled.line.asked == [BATCH, BATCH, 1]


def test_an_isolated_message_that_is_delivered_again_is_emitted_once(pulled: Pulled) -> None:
    pulled.line.bring((1, LIMIT + 1), (1, LIMIT + 2))
    assert pulled.in_flight.replies() == [f"$JS.ACK.dcm-status.watcher-sync.{LIMIT + 2}.1.1.1.0"]
    pulled.line.expire(8)
    pulled.line.expire(10)
    pulled.ask()
    assert pulled.take() == [1]
    pulled.settle(1)
    assert pulled.in_flight.empty


def test_a_message_that_is_isolated_at_the_stop_is_nacked(pulled: Pulled) -> None:
    pulled.line.bring((1, 1), (2, LIMIT + 1))
    assert len(pulled.in_flight.pop_unemitted(pulled.isolation.clear())) == 2
    assert pulled.in_flight.empty
    assert not pulled.isolation


def test_a_slow_start_takes_one_message_at_a_time_until_one_is_below_the_limit() -> None:
    pulled = Pulled(slow_start=True)
    assert pulled.line.asked == [1]
    for number in (1, 2):
        pulled.line.bring((number, LIMIT + 1))
        pulled.ask()
        assert pulled.take() == [number]
        assert len(pulled.line.asked) == number
        pulled.settle(number)
    pulled.line.bring((3, 1))
    pulled.ask()
    assert len(pulled.line.asked) == 4
    assert pulled.line.asked[-1] > 1


@pytest.mark.parametrize(
    "reply",
    [
        "$JS.ACK.stream.durable.1.7.9.1.4321",
        "$JS.ACK._.hash.stream.durable.1.7.9.1.4321",
        "$JS.ACK.domain.hash.stream.durable.1.7.9.1.4321.random",
    ],
)
def test_every_message_says_how_many_are_pending(reply: str) -> None:
    pulled = Pulled()
    assert pulled.consumer.pending() is None
    pulled.line.bring((1, 1))
    assert pulled.line._listen is not None
    pulled.line._listen(NatsMessage("dcm.vm", reply, b""))
    assert pulled.consumer.pending() == 4321
    assert pulled.consumer.pending() is None, "nothing came meanwhile"


def test_a_message_whose_deliveries_lost_connections_explain_is_not_isolated(pulled: Pulled) -> None:
    for _ in range(3):
        pulled.losses.add(2)
    pulled.line.bring((1, LIMIT + 1), (2, LIMIT + 4))
    assert pulled.take() == [1]


def test_a_request_that_brings_nothing_because_of_a_large_message_is_followed_by_a_larger_one(
    pulled: Pulled,
) -> None:
    assert [request["max_bytes"] for request in pulled.line.requests] == [8_388_608] * 2
    pulled.line.exceed(1, BATCH)
    pulled.ask()
    assert pulled.line.requests[-1]["max_bytes"] == 2 * 8_388_608
    pulled.line.bring((1, 1))
    pulled.line.exceed(2, BATCH - 1)
    pulled.ask()
    assert pulled.line.requests[-1]["max_bytes"] == 2 * 8_388_608
