# SPDX-License-Identifier: Apache-2.0
"""How many streams there may be in the process, and of one identity. For the thread of the event loop.

An identity is the address of a client before it has subscribed, then a user in a project. Streams without a
subscription have a limit of their own: clients without a token must not use up the streams of others.
"""

from __future__ import annotations

import asyncio
import collections
import ipaddress
import urllib.parse
import weakref
from collections.abc import Hashable
from typing import Final

from watcher_sync.extensions.watch.endings import limit_reached

_IPV6_PREFIX_BITS: Final = 64
"""One client may use all addresses of such a network."""


class StreamLimits:
    """Counts streams."""

    def __init__(self, max_streams: int, per_identity: int, max_unsubscribed: int | None = None) -> None:
        """:param max_unsubscribed: streams without a subscription; None: ``max_streams``."""
        self._max = max_streams
        self._max_unsubscribed = max_streams if max_unsubscribed is None else max_unsubscribed
        self._per_identity = per_identity
        self._count = 0
        self._unsubscribed = 0
        self._of: collections.Counter[Hashable] = collections.Counter()
        self._addresses: set[Hashable] = set()
        """The identities of streams without a subscription."""

    @property
    def count(self) -> int:
        """The streams of the process."""
        return self._count

    def enter(self, identity: Hashable) -> None:
        """Count a stream without a subscription.

        :param identity: the client's address.
        :raises StreamEnd: RESOURCE_EXHAUSTED: there are too many; nothing is counted.
        """
        if self._count >= self._max:
            raise limit_reached(f"all {self._max} streams of this process are in use")
        if self._unsubscribed >= self._max_unsubscribed:
            raise limit_reached(f"{self._unsubscribed} streams of this process have no subscription yet")
        self._take(identity)
        self._addresses.add(identity)
        self._unsubscribed += 1
        self._count += 1

    def move(self, identity: Hashable, to: Hashable) -> None:
        """Count a stream for another identity, which has subscribed.

        :raises StreamEnd: RESOURCE_EXHAUSTED: that identity has too many; nothing changes.
        """
        if identity != to:
            self._take(to)
            self._release(identity)

    def leave(self, identity: Hashable) -> None:
        """Count a stream no more."""
        self._release(identity)
        self._count -= 1

    def _take(self, identity: Hashable) -> None:
        if self._of[identity] >= self._per_identity:
            raise limit_reached(f"all {self._per_identity} streams of one caller are in use")
        self._of[identity] += 1

    def _release(self, identity: Hashable) -> None:
        if identity in self._addresses:
            self._unsubscribed -= 1
        self._of[identity] -= 1
        if self._of[identity] <= 0:
            del self._of[identity]
            self._addresses.discard(identity)


class Turns:
    """What each identity may do so many times at once; more wait for their turn."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._of: weakref.WeakValueDictionary[Hashable, asyncio.Semaphore] = weakref.WeakValueDictionary()

    def of(self, identity: Hashable) -> asyncio.Semaphore:
        """The turns of an identity."""
        found = self._of.get(identity)
        if found is None:
            found = self._of[identity] = asyncio.Semaphore(self._count)
        return found


def address_of(peer: str) -> str:
    """The client's address without its port, or the network of a client with IPv6.

    :param peer: as gRPC names it: ``ipv4:192.0.2.1:5000`` or ``ipv6:%5B2001:db8::1%5D:5000``.
    """
    address = peer.rpartition(":")[0] or peer
    family, _, host = urllib.parse.unquote(address).partition(":")
    if family != "ipv6":
        return address
    try:
        found = ipaddress.IPv6Address(host.strip("[]").partition("%")[0])
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return f"ipv4:{found.ipv4_mapped}"
    return f"ipv6:{ipaddress.IPv6Network((found, _IPV6_PREFIX_BITS), strict=False)}"
