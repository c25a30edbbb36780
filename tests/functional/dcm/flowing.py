# SPDX-License-Identifier: Apache-2.0
"""A history of many providers that flows through a stream, and the conditions that hold when it is consumed.

A :class:`Flow` is one legal history of status events with the rows that they refer to. One commit makes most rows
before the first event. The test posts the late rows through the API while the stream flows.

One connection publishes the messages in their order. Each message has an id, by which the server drops duplicates.
So the publisher may repeat a lot after a fault of the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nats.errors import Error as NatsError
from nats.js.errors import APIError

from tests.functional.engine.driving import Installation
from tests.functional.sources.jetstream import Dcm
from tests.waiting import deadline, seconds_until, wait_until
from watcher_sync.events import Event
from watcher_sync.model.changes import WRITTEN_HERE, Upsert, Version
from watcher_sync.model.transaction import Transaction
from watcher_sync.storage.writing.commits import Commit
from watcher_sync.testing.comparison import compare
from watcher_sync.testing.dcm.providers import UNTOLD, Message, ProviderSimulator, Row
from watcher_sync.testing.dcm.publisher import Document

KIND = "service_type_instance"
_LOT = 200
_AWAY = (NatsError, APIError, OSError)


class Flow:
    """Rows, and so many messages about them.

    :param late: how many of the rows are for :meth:`post_late`.
    """

    def __init__(self, *, seed: int, rows: int, messages: int, late: int = 0) -> None:
        simulator = ProviderSimulator(seed=seed, instances=rows, late=0, health=0)
        steps = simulator.history(messages)
        made = [step.body for step in steps if isinstance(step, Row)]
        self.messages = [step for step in steps if isinstance(step, Message)]
        """In their order: the first has the sequence 1."""
        self.early, self.late = made[late:], made[:late]
        self.truth = simulator.truth()

    def make_rows(self, site: Installation) -> None:
        """Make the rows that are there from the beginning, in one commit."""
        model = site.store.load()
        transaction = Transaction(model)
        first = model.generation + 1
        for number, row in enumerate(self.early, first):
            version = Version(f"{WRITTEN_HERE}{number:020d}")
            fields = dict(row)
            facets = {"provider": {"provider_name": fields.pop("provider_name")}}
            change = Upsert(KIND, fields.pop("id"), version, {"spec": fields, **facets})
            transaction.apply(Event(id=f"row-{number}", type="api", source="api"), [change])
        site.store.commit(Commit(generation=model.generation, staged=transaction.staged()))

    def check(self, site: Installation) -> None:
        """The rows are the truth, the journal leads to them, and the quarantine is empty."""
        kept = [json.loads(line) for line in site.manage("quarantine", "list").splitlines()]
        assert not kept, f"{len(kept)} events are in quarantine, such as {kept[0]['reason']!r}"
        differences = [str(d) for d in compare(self.truth, site.store.load().snapshot(), ignored=UNTOLD)]
        assert not differences, f"{len(differences)} differences:\n" + "\n".join(differences[:20])
        site.check_journal()


def post(rows: Sequence[Document], to: Callable[[Document], int]) -> None:
    """Make rows through the API.

    :param to: posts one row and returns the HTTP status.
    """
    for row in rows:
        assert to(row) == 201


def flood(dcm: Dcm, messages: Sequence[Message], *, rate: float | None = None) -> None:
    """Publish without waiting for each to be stored.

    :param rate: messages a second; None: as fast as it goes.
    """
    dcm.do(_flood(dcm, messages, rate), 300)


@contextlib.contextmanager
def flowing(
    dcm: Dcm,
    messages: Sequence[Message],
    *,
    rate: float | None = None,
    surely: bool = False,
    hurry: threading.Event | None = None,
) -> Iterator[threading.Event]:
    """Publish in a thread meanwhile; leaves when all is published. Gives what is set once it is.

    :param surely: wait for each lot to be stored, and publish it again when the server went away over it.
    :param hurry: once it is set, publish the rest as fast as it goes.
    """
    failures: list[BaseException] = []
    done = threading.Event()
    work = (_surely if surely else _flood)(dcm, messages, rate, hurry)

    def run() -> None:
        try:
            dcm.do(work, 300)
        except BaseException as exc:  # noqa: BLE001 - raised again in the test's thread
            failures.append(exc)
        done.set()

    thread = threading.Thread(target=run, name="flow", daemon=True)
    thread.start()
    yield done
    thread.join(deadline(300))
    assert not thread.is_alive(), "publishing does not end"
    if failures:
        raise failures[0]


def worked_off(dcm: Dcm, messages: int, seconds: float = 120) -> float:
    """Wait until so many are stored and every one is acknowledged; after how many seconds they were."""
    wait_until(lambda: dcm.stream().state.messages == messages, seconds, "everything to be in the stream")
    return seconds_until(dcm.settled, seconds, "everything to be committed and acknowledged")


def committed(site: Installation, since: int = 0) -> int:
    """The latest place in the stream of which the journal tells; 0 where it tells of none."""
    numbers = [row.event_id.partition("-") for row in site.rows(since)]
    return max((int(number) for name, _, number in numbers if name == "event"), default=0)


async def _flood(
    dcm: Dcm, messages: Sequence[Message], rate: float | None, hurry: threading.Event | None = None
) -> None:
    async for lot in _paced(messages, rate, hurry):
        for message in lot:
            await dcm.client.publish(message.subject, message.body, headers=_named(message))
        await dcm.client.flush(60)


async def _surely(dcm: Dcm, messages: Sequence[Message], rate: float | None, hurry: threading.Event | None) -> None:
    async for lot in _paced(messages, rate, hurry):
        for message in lot:
            while True:
                try:
                    await dcm.js.publish(message.subject, message.body, headers=_named(message), timeout=deadline(1))
                    break
                except _AWAY:
                    # One pause of the same kind as that between two attempts to connect.
                    await asyncio.sleep(0.02)


async def _paced(messages: Sequence[Message], rate: float | None, hurry: threading.Event | None) -> Any:
    loop = asyncio.get_running_loop()
    began, sent = loop.time(), 0
    iterator = iter(messages)
    while lot := list(itertools.islice(iterator, _LOT if rate is None else max(1, int(rate / 20)))):
        in_time = rate is not None and not (hurry and hurry.is_set())
        if in_time and (early := began + sent / rate - loop.time()) > 0:
            await asyncio.sleep(early)
        yield lot
        sent += len(lot)


def _named(message: Message) -> dict[str, str]:
    return {"Nats-Msg-Id": f"{message.sequence[1]}"}


def passed(seconds: float) -> None:
    """Let a fault last so long."""
    until = time.monotonic() + seconds  # wait: the fault lasts so long
    wait_until(lambda: time.monotonic() >= until, seconds + 10)
