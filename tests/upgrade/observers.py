# SPDX-License-Identifier: Apache-2.0
"""Observers of an upgrade: how long commits and answers pause, and what a subscriber knows."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import httpx
import msgspec
from standardwebhooks import Webhook, WebhookVerificationError

from tests.functional.webhooks.driving import Record, check_order
from tests.functional.webhooks.subscribing import SECRET
from tests.waiting import deadline

_POLL_SECONDS = 0.02


class Pauses:
    """Measures the longest time between two signs of progress in each step.

    :param progress: returns another value after progress. A thread calls it.
    """

    def __init__(self, progress: Callable[[], object]) -> None:
        self.step = "before"
        self.longest: dict[str, float] = {}
        """Step -> seconds. A pause counts for the step in which it ends."""
        self._progress = progress
        self._ended = threading.Event()
        self._threads = concurrent.futures.ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        self._measured = self._threads.submit(self._measure)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._measured.result(deadline(60))

    def described(self) -> str:
        """The longest pause, and those of the steps."""
        steps = ", ".join(f"{step} {seconds:.1f}" for step, seconds in self.longest.items())
        return f"{max(self.longest.values()):.1f} s at most ({steps})"

    def _measure(self) -> None:
        value, since = self._progress(), time.monotonic()
        while not self._ended.wait(_POLL_SECONDS):
            if (found := self._progress()) != value:
                now = time.monotonic()
                self.longest[self.step] = max(self.longest.get(self.step, 0.0), now - since)
                value, since = found, now


class Asker:
    """A client of the API that asks for instances again and again, and connects again when the API is away."""

    def __init__(self, url: str) -> None:
        self.answered = 0
        self.refused: list[int] = []
        """The statuses that are not 200."""
        self._client = httpx.Client(base_url=url, timeout=deadline(30))

    def ask(self) -> int:
        """:returns: the number of answers so far."""
        with contextlib.suppress(httpx.TransportError):
            status = self._client.get("/v1/instances", params={"limit": 20}).status_code
            if status == 200:
                self.answered += 1
            else:
                self.refused.append(status)
        return self.answered


class Subscriber(Record):
    """The receiver of subscriptions, one for each instance, which knows what they should have brought."""

    def __init__(self) -> None:
        super().__init__()
        self.unsigned: list[str] = []
        """Why signatures were refused."""
        self._first: dict[str, Any] = {}
        """Instance -> its status before the subscription."""

    def note(self, headers: dict[str, str], body: bytes) -> None:
        try:
            Webhook(SECRET).verify(body, headers)
        except WebhookVerificationError as exc:
            self.unsigned.append(str(exc))
        super().note(headers, body)

    def subscribe(self, client: httpx.Client, count: int) -> None:
        """Subscribe to so many instances."""
        for instance in client.get("/v1/instances", params={"limit": count}).json()["instances"]:
            body = {"name": "upgrade", "callback-url": self.url, "secret": SECRET}
            answer = client.post(f"/v1/instance/{instance['id']}/status/subscription", json=body)
            assert answer.status_code == 201, answer.text
            self._first[instance["id"]] = _status(client, instance["id"])

    def check(self, client: httpx.Client) -> None:
        """Each subscription has all changes in order: it ends with the status that the API shows, or with the end."""
        assert self.unsigned == []
        for name, status in self._first.items():
            known = status
            if (last := check_order(self, name)) is not None:
                document = msgspec.json.decode(last.body)
                changes = document["resource-changes"]
                (known,) = [each["status"] for each in changes["created"] + changes["modified"]] or [None]
                assert (document.get("state") == "gone") == (known is None), document
            assert known == _status(client, name), f"{name} has another status than its subscriber was sent"


def _status(client: httpx.Client, name: str) -> Any:
    """The status of an instance as the API shows it; None: it does not exist."""
    answer = client.get(f"/v1/instance/{name}/status")
    if answer.status_code == 404:
        return None
    (resource,) = answer.json()["resourcesStatus"]
    return resource["status"]
