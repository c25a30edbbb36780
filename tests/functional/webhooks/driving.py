# SPDX-License-Identifier: Apache-2.0
"""Real ``watcher-sync-outlet`` processes, and a receiver in a thread that checks what it gets.

A :class:`Record` has the requests of a subscription in the order of their arrival. :func:`check` asserts what the
outlet guarantees, whatever was killed:

* A repeated delivery has the id and the body of the first one.
* No delivery comes after a newer one, except a repeat.
* Each delivery continues where the one before ended, so no change is missing.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.functional.engine.driving import EngineProcess, Installation
from tests.functional.webhooks.receivers import Receiver, receiving, status
from tests.functional.webhooks.subscribing import Instances
from tests.waiting import deadline
from watcher_sync.extensions.webhooks.secrets import SecretBox, new_key

KEY = new_key()
BOX = SecretBox([KEY])

OPTIONS = {
    "outlet_webhook.allow_http": "true",
    "outlet_webhook.allowed_networks": "127.0.0.0/8",
    "outlet_webhook.secret_keys": KEY,
    "database.lease_time": 2,
    "database.journal_poll_interval": 0.02,
}


def outlet(site: Installation, config: Path) -> EngineProcess:
    """Start an outlet and return at once; it is killed when the installation ends."""
    log = site.folder / f"outlet-{len(site.engines) + 1}.log"
    process = EngineProcess(site.command("watcher-sync-outlet", config), log, site.environment)
    site.engines.append(process)
    return process


class Arrival(msgspec.Struct, frozen=True):
    """One request."""

    webhook_id: str
    body: bytes
    previous: int
    sequence: int
    goes_back: bool = False
    """Whether it says that the database went back in time."""


class Record:
    """What a receiver got, by instance."""

    def __init__(self) -> None:
        self.arrivals: dict[str, list[Arrival]] = collections.defaultdict(list)
        self.total = 0
        self.port = 0
        self.seconds = 0.0
        """From a request to its answer."""
        self.paused = threading.Event()
        """While it is set, requests are read and not answered."""

    def note(self, headers: dict[str, str], body: bytes) -> None:
        document = msgspec.json.decode(body)
        self.arrivals[document["instance-id"]].append(
            Arrival(
                headers["webhook-id"],
                body,
                document["previous-sequence"],
                document["sequence"],
                "the database went back in time" in document.get("resync", ""),
            )
        )
        self.total += 1

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def repeats(self) -> int:
        return sum(len(found) - len({each.webhook_id for each in found}) for found in self.arrivals.values())

    def lacks(self, committed: dict[str, str]) -> list[str]:
        """The instances whose last value has not arrived."""
        return [
            name
            for name, value in committed.items()
            if not any(value.encode() in each.body for each in self.arrivals.get(name, [])[-3:])
        ]


@contextlib.contextmanager
def recording(record: Record | None = None, *, seconds: float = 0.0) -> Iterator[Record]:
    """A receiver in a thread of its own, which answers 200 after so many seconds.

    :param record: has what it gets; None: a new one.
    """
    record = record or Record()
    record.seconds = seconds
    started, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    def make(receiver: Receiver) -> Any:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await receiver.request(reader)
                _, headers, body = receiver.requests.pop()
                record.note(headers, body)
                await asyncio.sleep(record.seconds)
                while record.paused.is_set():
                    await asyncio.sleep(0.02)
                writer.write(status(200))
                await writer.drain()

        return answer

    async def serve() -> None:
        async with receiving(make) as receiver:
            record.port = receiver.port
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert started.wait(deadline(60))
    try:
        yield record
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(deadline(60))
        loop.close()


def check(record: Record, instances: Instances, numbers: Iterable[int]) -> None:
    """All changes of these instances arrived, in order."""
    for number in numbers:
        name = f"i{number}"
        last = check_order(record, name)
        assert last is not None, f"nothing came for {name}"
        assert instances.committed[name].encode() in last.body, f"{name}: the last delivery has an old value"


def check_order(record: Record, name: str) -> Arrival | None:
    """No change of the instance is missing between two deliveries, within one history of the database.

    :returns: the last new delivery; None: nothing came.
    """
    known: dict[str, Arrival] = {}
    last: Arrival | None = None
    for arrival in record.arrivals[name]:
        if (first := known.get(arrival.webhook_id)) is not None:
            assert arrival.body == first.body, f"{arrival.webhook_id} of {name} was repeated with another body"
            continue
        known[arrival.webhook_id] = arrival
        if last is not None and not arrival.goes_back:
            assert arrival.sequence > last.sequence, f"{name}: {arrival.sequence} came after {last.sequence}"
            assert arrival.previous == last.sequence, f"{name}: nothing has {last.sequence} to {arrival.previous}"
        last = arrival
    return last
