# SPDX-License-Identifier: Apache-2.0
"""Messages that are redelivered after a nack, a lost ack, or the stop of an engine."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from nats.errors import TimeoutError as NothingThere

from tests.functional.dcm.flowing import KIND, Flow, flood, flowing, worked_off
from tests.functional.engine.driving import Installation, scaled
from tests.functional.sources.jetstream import DURABLE, STREAM, Dcm
from tests.services.servers import Server
from tests.waiting import deadline, wait_until
from watcher_sync.testing.dcm.providers import Message
from watcher_sync.testing.dcm.publisher import STATUSES, Document, body_of, status, subject

Site = Callable[..., Installation]

_MISSES = 2
"""So many stops may come too late: an engine works off a whole lot while the test is paused."""


class Refuser:
    """A way to a NATS server on which every so many acknowledgements say the opposite at the other end.

    :param share: of the acknowledgements, 0..1.
    """

    def __init__(self, target: int, *, share: float, seed: int) -> None:
        self.turned = 0
        self._target = target
        self._share = share
        self._rng = random.Random(seed)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                for one, other, turning in ((near, far, True), (far, near, False)):
                    threading.Thread(target=self._pass_on, args=(one, other, turning), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket, turning: bool) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 20):
                other.sendall(self._turn(data) if turning else data)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)

    def _turn(self, data: bytes) -> bytes:
        # An acknowledgement that two reads have between them goes as it is.
        first, *rest = data.split(b"\r\n+ACK\r\n")
        turned = [first]
        for part in rest:
            refused = self._rng.random() < self._share
            self.turned += refused
            turned += (b"\r\n-NAK\r\n" if refused else b"\r\n+ACK\r\n", part)
        return b"".join(turned)


@pytest.fixture
def refuser(own_nats: Server) -> Iterator[Refuser]:
    refuser = Refuser(own_nats.port, share=0.05, seed=3)
    yield refuser
    refuser.close()


def give_some_back(dcm: Dcm, count: int, *, each: int, over: int) -> int:
    """Take messages from the engine's consumer and give them back, now or a little later.

    :param count: how many at least.
    :param each: how many at once, spread evenly over the deliveries of ``over`` messages.
    :returns: how many they were.
    """
    rng = random.Random(4)

    async def run() -> int:
        subscription = await dcm.js.pull_subscribe_bind(durable=DURABLE, stream=STREAM)
        given = 0
        while given < count:
            due = over * given / count
            while (await dcm.js.consumer_info(STREAM, DURABLE)).delivered.stream_seq < due:
                pass
            try:
                messages = await subscription.fetch(each, timeout=deadline(20))
            except NothingThere:
                break
            for message in messages:
                times = message.metadata.num_delivered
                # What comes back to us is left to the engine for longer each time: it is not to reach the limit.
                delay = rng.choice((None, 0.05, 0.3, 1.0)) if times == 1 else 0.5 * 2**times
                await message.nak(delay=delay)
            given += len(messages)
        await dcm.client.flush(60)
        return given

    return dcm.do(run(), 120)


@pytest.mark.rare
def test_what_is_given_back_at_random_and_acks_that_get_lost_leave_no_row_wrong(
    sqlite_url: str, site: Site, dcm: Dcm, refuser: Refuser, figure: Callable[[str], None]
) -> None:
    """5 % uncommitted, by another reader of the durable, and 5 % after their commit."""
    flow = Flow(seed=10, rows=2_000, messages=scaled(20_000))
    made = site(sqlite_url)
    made.options["source_dcm.servers"] = f"nats://127.0.0.1:{refuser.port}"
    flow.make_rows(made)
    engine = made.engine(made.config())
    engine.wait_for_log("source dcm: connected")
    with flowing(dcm, flow.messages, rate=5_000):
        given = give_some_back(dcm, len(flow.messages) // 20, each=25, over=len(flow.messages))
    took = worked_off(dcm, len(flow.messages))
    redelivered = dcm.consumer().delivered.consumer_seq - len(flow.messages)
    figure(
        f"{given} of {len(flow.messages)} given back uncommitted and {refuser.turned} committed, "
        f"{redelivered} delivered again, done {took:.1f} s after the last was published"
    )
    assert given >= len(flow.messages) // 25
    assert refuser.turned >= len(flow.messages) // 25
    assert redelivered == given + refuser.turned, "only what was given back is delivered again"
    assert engine.terminate()[0] == 0, engine.log[-4000:]
    flow.check(made)


@pytest.mark.parametrize("stops", [1, pytest.param(3, marks=pytest.mark.rare)])
def test_an_engine_terminated_under_load_ends_with_status_0_and_has_acked_what_it_committed(
    postgresql_url: str, site: Site, dcm: Dcm, figure: Callable[[str], None], stops: int
) -> None:
    # One message a row: whatever comes again, and in whatever order, none is stale, and each is counted once.
    rows = scaled(2_500) * (stops + _MISSES + 1)
    flow = Flow(seed=11, rows=rows, messages=3 * rows)
    messages = [told_once(row, number) for number, row in enumerate(flow.early, 1)]
    made = site(postgresql_url)
    flow.make_rows(made)
    config = made.config()
    lot = len(messages) // (stops + _MISSES + 1)
    hits = begin = 0
    while hits < stops:
        assert begin < (stops + _MISSES) * lot, "there was no load"
        head = made.head()
        flood(dcm, messages[begin : begin + lot])
        engine = made.engine(config)
        wait_until(lambda head=head: made.head() > head + 50, what="load")
        status, seconds = engine.terminate()
        assert status == 0, engine.log[-4000:]
        done = committed(made)
        # The server has the acks when the engine is gone, and takes a moment to count them. One of the 2.9 series may
        # go back by one in the stream over what was given back, and count one more as pending than it has delivered.
        wait_until(lambda done=done: acked(dcm) >= len(done) - 1, what=f"{len(done)} acks; now {acked(dcm)}")
        assert acked(dcm) <= len(done), "something was acked and not committed"
        info = dcm.consumer()
        figure(
            f"ended after {seconds:.2f} s; committed {len(done)}, "
            f"{info.num_pending} not delivered yet and {info.num_ack_pending} given back"
        )
        begin += lot
        hits += info.num_pending + info.num_ack_pending > 0
        if info.delivered.stream_seq - info.num_ack_pending == len(done):
            again = what_comes_again(dcm, info.num_ack_pending)
            assert sorted([*done, *again]) == list(range(1, info.delivered.stream_seq + 1)), (
                "what was delivered is either committed, or comes again at once"
            )
    flood(dcm, messages[begin:])
    engine = made.engine(config)
    worked_off(dcm, len(messages))
    assert engine.terminate()[0] == 0, engine.log[-4000:]
    assert merged(made) == len(messages), "an event was counted twice, or not at all"
    assert not made.manage("quarantine", "list")
    made.check_journal()


def told_once(row: Document, number: int) -> Message:
    """The one message about a row."""
    service_type = row["service_type"]
    document = status(
        row["id"],
        STATUSES[service_type][0],
        service_type=service_type,
        provider=row["provider_name"],
        event_id=f"event-{number}",
    )
    return Message(subject(service_type), body_of(document), (0, number), None)


def acked(dcm: Dcm) -> int:
    """How many messages are done, by the server's count. What is not acked need not be the last."""
    info = dcm.consumer()
    return info.delivered.stream_seq - info.num_ack_pending


def what_comes_again(dcm: Dcm, count: int) -> list[int]:
    """The places in the stream of the next so many messages of the engine's consumer, which are given back."""

    async def run() -> list[int]:
        if not count:
            return []
        subscription = await dcm.js.pull_subscribe_bind(durable=DURABLE, stream=STREAM)
        messages = await subscription.fetch(count, timeout=deadline(60))
        for message in messages:
            await message.nak()
        await dcm.client.flush(60)
        await subscription.unsubscribe()
        return [message.metadata.sequence.stream for message in messages]

    return dcm.do(run(), 120)


def committed(site: Installation) -> list[int]:
    """The places in the stream of the events that the journal tells of."""
    names = [row.event_id.partition("-") for row in site.rows() if row.kind == KIND]
    return [int(number) for name, _, number in names if name == "event"]


def merged(site: Installation) -> int:
    """How many events the journal tells of."""
    return sum(row.merged for row in site.rows() if row.kind == KIND and row.event_id.startswith("event-"))
