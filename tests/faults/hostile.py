# SPDX-License-Identifier: Apache-2.0
"""A hostile provider: a program that publishes every known attack to its own subject at full rate.

::

    python -m tests.faults.hostile --url nats://127.0.0.1:4222 --subject dcm.vm --stream S --seconds 600 --seed 1

The messages depend on the seed alone. The program publishes with acknowledgements, many at a time, so the server sets
the rate. It ends after the given seconds or messages and prints as JSON how many messages of each attack it sent.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import itertools
import json
import random
import string
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import nats
from nats.errors import Error as NatsError

from tests.waiting import deadline
from watcher_sync.testing.dcm import publisher
from watcher_sync.testing.nova import notifications

VICTIM = "honest"
"""The provider that the attacks name."""

NAME = "hostile"
"""The provider's own name."""

_WINDOW = 256
"""Messages that wait for the server's acknowledgement."""

_MAX_WINDOW_BYTES = 8_000_000

_LARGE_BYTES = 500_000

Attack = Callable[[random.Random, int], bytes]


def own_rows(count: int = 20) -> list[str]:
    """The ids of the provider's own instances."""
    return [f"hostile-{number}" for number in range(count)]


def victim_rows(count: int) -> list[str]:
    """The ids of the victim's instances."""
    return [f"honest-{number}" for number in range(count)]


def _cloud_event(number: int, **attributes: Any) -> bytes:
    document = publisher.status("hostile-0", provider=NAME, event_id=f"hostile-{number}")
    return json.dumps({**document, **attributes}).encode()


def _status(number: int, instance_id: str, provider: str = NAME, **more: Any) -> bytes:
    document = publisher.status(instance_id, provider=provider, event_id=f"hostile-{number}", time=None)
    document["data"].update(more)
    return json.dumps(document).encode()


def _own_status(rng: random.Random, number: int) -> bytes:
    return _status(number, rng.choice(own_rows()), status=rng.choice(("RUNNING", "STOPPED", "PAUSED")))


def _own_large_status(rng: random.Random, number: int) -> bytes:
    return _status(number, rng.choice(own_rows()), output_spec={"blob": "b" * _LARGE_BYTES})


def _delete_a_server(rng: random.Random, number: int) -> bytes:
    payload = notifications.event("instance.delete.end", uuid="11111111-2222-4333-8444-555555555555")["payload"]
    return _cloud_event(number, type="instance.delete.end", data=payload)


def _disable_a_host(rng: random.Random, number: int) -> bytes:
    return json.dumps(notifications.event("service.update", host="cpu-1", disabled=True)).encode()


def _empty_a_cluster(rng: random.Random, number: int) -> bytes:
    data = {"cluster": "edge", "uids": [], "items": []}
    return _cloud_event(number, type="kubernetes.pod.listed", source="edge", data=data)


def _impersonate(rng: random.Random, number: int) -> bytes:
    return _status(number, rng.choice(victim_rows(100)), VICTIM, status="DELETED")


def _slander(rng: random.Random, number: int) -> bytes:
    return json.dumps(publisher.health("unavailable", provider=VICTIM, event_id=f"hostile-{number}")).encode()


def _from_the_future(rng: random.Random, number: int) -> bytes:
    document = publisher.status(rng.choice(own_rows()), provider=NAME, event_id=f"hostile-{number}")
    return json.dumps({**document, "time": "5137-01-01T00:00:00Z"}).encode()


def _long_subject(rng: random.Random, number: int) -> bytes:
    document = publisher.status("x", provider=NAME, event_id=f"hostile-{number}")
    del document["data"]["id"]
    part = rng.choice((".instances.a", "dcm.providers.", "a", ".", "vm.instances."))
    return json.dumps({**document, "subject": part * (_LARGE_BYTES // len(part))}).encode()


def _long_type(rng: random.Random, number: int) -> bytes:
    return _cloud_event(number, type="dcm.status." + "a.b" * (_LARGE_BYTES // 3))


def _unknown_type(rng: random.Random, number: int) -> bytes:
    return _cloud_event(number, type="dcm.status." + "".join(rng.choices(string.ascii_lowercase, k=20)))


def _park_at_one_id(rng: random.Random, number: int) -> bytes:
    return _status(number, "hostile-bomb", message="m" * 1000)


def _park_anywhere(rng: random.Random, number: int) -> bytes:
    return _status(number, f"hostile-unknown-{number}", message="m" * 1000)


def _control_characters(rng: random.Random, number: int) -> bytes:
    return _status(number, "x\x1b[2J\nERROR forged line\u202e", status="\x1b]0;owned\x07")


def _deep(rng: random.Random, number: int) -> bytes:
    return b'{"a":' * 50_000


def _no_json(rng: random.Random, number: int) -> bytes:
    return rng.randbytes(2_000)


def _wide(rng: random.Random, number: int) -> bytes:
    return _status(number, rng.choice(own_rows()), output_spec={f"k{i}": i for i in range(5_000)})


ATTACKS: dict[Attack, int] = {
    _own_status: 200, _own_large_status: 4, _delete_a_server: 50, _disable_a_host: 50, _empty_a_cluster: 50,
    _impersonate: 150, _slander: 50, _from_the_future: 50, _long_subject: 2, _long_type: 2, _unknown_type: 60,
    _park_at_one_id: 100, _park_anywhere: 100, _control_characters: 30, _deep: 2, _no_json: 60, _wide: 5,
}  # fmt: skip
"""Attack -> how often it comes."""


def messages(seed: int) -> Iterator[tuple[str, bytes]]:
    """Endless (name of the attack, body); some messages come twice in a row."""
    rng = random.Random(seed)
    attacks, weights = list(ATTACKS), list(ATTACKS.values())
    for number in itertools.count(1):
        attack = rng.choices(attacks, weights)[0]
        body = attack(rng, number)
        for _ in range(2 if rng.random() < 0.02 else 1):
            yield attack.__name__.strip("_"), body


async def publish(url: str, subject: str, stream: str, *, seconds: float, most: int, seed: int) -> dict[str, int]:
    """Publish until the time or the number of messages is over.

    :returns: attack -> messages that the server stored, and ``refused`` -> messages that it did not.
    """
    client = await nats.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, pending_size=64 * 1024 * 1024)
    js = client.jetstream(timeout=deadline(10), publish_async_max_pending=_WINDOW)
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    sent: collections.Counter[str] = collections.Counter()
    generator = messages(seed)
    while loop.time() < end and sent.total() < most:
        window: list[tuple[str, bytes]] = []
        size = 0
        while len(window) < _WINDOW and size < _MAX_WINDOW_BYTES:
            name, body = next(generator)
            window.append((name, body))
            size += len(body)
        results = await asyncio.gather(
            *(js.publish(subject, body, stream=stream) for _, body in window), return_exceptions=True
        )
        for (name, _), result in zip(window, results, strict=True):
            if isinstance(result, Exception) and not isinstance(result, (NatsError, OSError)):
                raise result
            sent["refused" if isinstance(result, BaseException) else name] += 1
    await client.close()
    return dict(sent)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.hostile")
    parser.add_argument("--url", required=True)
    parser.add_argument("--subject", required=True)
    parser.add_argument("--stream", required=True)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--most", type=int, default=20_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    work = publish(
        options.url, options.subject, options.stream, seconds=options.seconds, most=options.most, seed=options.seed
    )
    print(json.dumps(asyncio.run(work)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
