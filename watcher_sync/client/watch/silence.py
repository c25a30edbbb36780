# SPDX-License-Identifier: Apache-2.0
"""Whether a stream has fallen silent, judged by the pings of its service.

A proxy answers the keepalives of HTTP/2 itself, also while the service behind it is gone. The pings of the dialect come
from the service. Their interval is an option of the service, so the client learns it from the pings.
"""

from __future__ import annotations

MIN_SILENCE_SECONDS = 30.0
"""Silence that ends no stream: a paused machine is no lost service."""

_MISSED_PINGS = 4
"""The first ping comes after half an interval at least, so two are missed in any case."""


class StreamSilence:
    """What the streams of a watch received, and when. Times are in seconds of one clock."""

    def __init__(self) -> None:
        self._received_at = self._pinged_at = 0.0
        self._longest = 0.0
        """The longest time before a ping; 0: there was none, and the service may send none."""

    def begin(self, now: float) -> None:
        """A stream begins. It may go to the same lost service, so what is known of the pings counts on."""
        self._received_at = self._pinged_at = now

    def receive(self, now: float) -> None:
        """A message came."""
        self._received_at = now

    def ping(self, now: float) -> None:
        """A ping came."""
        self._longest = max(self._longest, now - self._pinged_at)
        self._received_at = self._pinged_at = now

    @property
    def deadline(self) -> float | None:
        """The moment from which the stream counts as lost; None: never."""
        if not self._longest:
            return None
        return self._received_at + max(MIN_SILENCE_SECONDS, _MISSED_PINGS * self._longest)
