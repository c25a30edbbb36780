# SPDX-License-Identifier: Apache-2.0
"""What was delivered often is handed over alone, and what came beside it is delivered once."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import msgspec
import pytest

from watcher_sync.events import Event
from watcher_sync.sources.nats.client import Listen, Message
from watcher_sync.sources.nats.consumer import EXPIRES, Pulling
from watcher_sync.sources.nats.in_flight import ACK, InFlight

BATCH = 10
LIMIT = 5


class Line:
    """A connection: what is asked for over it, and what the server says."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self._listen: Listen | None = None

    def new_inbox(self) -> str:
        return "_INBOX.x"

    async def listen(self, subject: str, listener: Listen) -> None:
        self._listen = listener

    async def publish(self, subject: str, payload: bytes, reply: str) -> None:
        self.asked.append(msgspec.json.decode(payload)["batch"])

    def bring(self, *messages: tuple[int, int]) -> None:
        """:param messages: sequence and deliveries of each."""
        assert self._listen is not None
        for sequence, deliveries in messages:
            reply = f"$JS.ACK.dcm-status.watcher-sync.{deliveries}.{sequence}.{sequence}.1.0"
            assert self._listen(Message("dcm.vm", reply, b"")) is None

    def expire(self, left: int) -> None:
        assert self._listen is not None
        headers = {"Status": "408", "Description": "Request Timeout", "Nats-Pending-Messages": str(left)}
        assert self._listen(Message("_INBOX.x.1", "", b"", headers)) is None


class Pulled:
    """A life on a line, and the engine at its end."""

    def __init__(self, **options: Any) -> None:
        self.line = Line()
        self.hands = InFlight(threading.Event())
        self.pulling = Pulling(
            self.line,  # type: ignore[arg-type]
            "next",
            batch=BATCH,
            deliver=lambda arrived: self.hands.deliver(1, arrived),
            waiting=self.hands.waiting,
            kick=lambda: None,
            in_hand=lambda: len(self.hands),
            suspect_after=LIMIT,
            put_aside=lambda arrived: self.hands.put_aside(1, arrived),
            aside=lambda: self.hands.aside,
            emit_one_aside=self.hands.emit_one_aside,
            **options,
        )
        asyncio.run(self.pulling.begin())
        self.ask()

    def ask(self) -> None:
        asyncio.run(self.pulling.ask())

    def take(self) -> list[int]:
        """The sequences that are handed over."""
        taken = self.hands.take(100, 0.0) if self.hands.waiting() else None
        return [arrived.sequence for _, arrived in taken or ()]

    def settle(self, *sequences: int) -> None:
        self.hands.settle([Event(id="e", type="t", source="dcm", sequence=(1, n)) for n in sequences], None)
        assert [payload for _, payload in self.hands.settlements(1)] == [ACK] * len(sequences)
        self.ask()


@pytest.fixture
def pulled() -> Pulled:
    return Pulled()


def test_nothing_is_asked_for_while_a_suspect_waits_and_its_neighbours_are_handed_over_as_they_come(
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


def test_a_suspect_is_handed_over_when_what_was_asked_for_beside_it_has_expired(pulled: Pulled) -> None:
    pulled.line.bring((1, LIMIT + 1))
    pulled.line.expire(9)
    pulled.ask()
    assert pulled.take() == []
    pulled.line.expire(10)
    pulled.ask()
    assert pulled.take() == [1]


def test_what_is_left_of_a_request_of_whose_end_nothing_was_told_is_not_counted(
    pulled: Pulled, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled.line.bring((1, 1))
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + EXPIRES / 2)
    pulled.line.bring(*((n, 1) for n in range(2, 12)))
    pulled.take()
    pulled.settle(*range(1, 12))
    assert pulled.line.asked == [BATCH] * 3, "nine and ten are asked for"
    monkeypatch.setattr(time, "monotonic", lambda: now + EXPIRES + 2)
    pulled.ask()
    assert pulled.line.asked == [BATCH] * 4, "nobody answers the nine any more"
    monkeypatch.setattr(time, "monotonic", lambda: now + 2 * EXPIRES)
    pulled.ask()
    assert pulled.line.asked == [BATCH] * 5


@pytest.mark.parametrize(("deliveries", "order"), [(LIMIT + 1, [9, 5, 1]), (LIMIT + 2, [1, 5, 9])])
def test_several_suspects_are_handed_over_one_after_the_other_the_other_way_round_each_time(
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


def test_a_suspect_that_is_delivered_again_while_it_waits_is_handed_over_once(pulled: Pulled) -> None:
    pulled.line.bring((1, LIMIT + 1), (1, LIMIT + 2))
    assert pulled.hands.held(1) == [f"$JS.ACK.dcm-status.watcher-sync.{LIMIT + 2}.1.1.1.0"]
    pulled.line.expire(8)
    pulled.line.expire(10)
    pulled.ask()
    assert pulled.take() == [1]
    pulled.settle(1)
    assert pulled.hands.empty


def test_a_suspect_that_waits_at_the_stop_is_given_back(pulled: Pulled) -> None:
    pulled.line.bring((1, 1), (2, LIMIT + 1))
    assert len(pulled.hands.unemitted(1)) == 2
    assert pulled.hands.empty
    assert not pulled.hands.aside


def test_a_careful_life_takes_suspects_alone_until_there_is_another() -> None:
    pulled = Pulled(careful=True)
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
    "reply", ["$JS.ACK.stream.durable.1.7.9.1.4321", "$JS.ACK.domain.hash.stream.durable.1.7.9.1.4321.random"]
)
def test_every_message_tells_how_many_are_left_behind(reply: str) -> None:
    pulled = Pulled()
    assert pulled.pulling.left_behind() is None
    pulled.line.bring((1, 1))
    assert pulled.line._listen is not None
    pulled.line._listen(Message("dcm.vm", reply, b""))
    assert pulled.pulling.left_behind() == 4321
    assert pulled.pulling.left_behind() is None, "nothing came meanwhile"
