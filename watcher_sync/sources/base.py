# SPDX-License-Identifier: Apache-2.0
"""What a source is: a configured driver that brings events in and gives acknowledgements back.

A driver is a class named by an entry point in the group ``watcher_sync.sources``; an instance of it
stands for one ``[source_<name>]`` section. The engine calls it from its own threads, the source emits
from its own threads, and neither ever sees the other's connection.

What a source guarantees:

* It never drops an event. What it cannot decode it emits with ``undecodable`` set.
* It acknowledges to its transport only what the engine acked. At-least-once is enough: the model's
  ordering guard makes redelivery harmless.
* It owns its reconnection, for ever, with jittered back-off. ``start`` returns soon, connected or not.
* What it emits in one call stays in order; between two calls of one thread the order is kept too.
"""

from __future__ import annotations

import abc
import datetime
import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from watcher_sync.deprecation import renamed_members
from watcher_sync.events import Event

if TYPE_CHECKING:
    from oslo_config import cfg

Emit = Callable[[Sequence[Event]], None]
"""Hand events to the engine, in order. Blocks while the engine has enough of this source's events in
hand (that is the back-pressure). Raises :class:`IntakeClosed` once the engine takes nothing more."""


class IntakeClosed(Exception):
    """The engine takes no more events: give back what is in hand and end."""


class SourceState(enum.StrEnum):
    """What a source is doing, as operators see it."""

    STARTING = "starting"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    STOPPED = "stopped"
    FAILED = "failed"


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A source's own figures."""

    state: SourceState
    detail: str = ""
    """One line for a person: why it is not connected."""
    lag: int | None = None
    """Events that wait in the transport; None where it cannot be told."""
    last_event_at: datetime.datetime | None = None
    """When the last event came in, aware UTC."""
    reconnects: int = 0
    """How often the connection was made again since the start."""
    redelivered: int | None = None
    """Events in the transport that were delivered before and are not done; None where it cannot be told."""


_RENAMED_MEMBERS = {"lives_apart": "supports_subprocess", "reach": "probe", "release": "nack"}
"""Deprecated names of members that drivers override -> new names."""


class Source(abc.ABC):
    """Base of all source drivers.

    :cvar options: ``oslo.config`` options of the driver, registered in the group ``source_<name>``.
    :cvar waits_for_ack: True when the driver emits nothing more until what it emitted is acked or
        released. The engine then commits at once instead of lingering for more.
    :cvar supports_subprocess: True when the driver can run in a process of its own (see ``sources/subprocess``); its
        option ``own_process`` decides. Such a driver keeps no cursor, and of the configuration it
        reads its own group and ``[engine]`` only.
    """

    options: ClassVar[list[cfg.Opt]] = []
    waits_for_ack: ClassVar[bool] = False
    supports_subprocess: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """A driver that overrides members under their deprecated names works, and warns."""
        super().__init_subclass__(**kwargs)
        renamed_members(cls, _RENAMED_MEMBERS, stacklevel=3)  # ABCMeta calls this one

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:param name: the source's name; its options are ``conf['source_' + name]``.

        :param conf: the whole configuration.
        :param cursor: the durable position of the last committed event, as :meth:`cursor` returned it;
            None at the first start or where the driver keeps none.

        Checks the options, and does nothing else: an instance may be made only to see whether it can be.

        :raises ConfigError: naming the option that is wrong.
        """
        self.name = name
        self.conf = conf
        self.group = conf[f"source_{name}"]
        self.saved_cursor = cursor

    @abc.abstractmethod
    def start(self, emit: Emit) -> None:
        """Begin to emit events from own threads; returns without waiting for the connection.

        :raises SourceError: when the source can never work as configured now; the supervisor makes a
            new one after a back-off.
        """

    @abc.abstractmethod
    def ack(self, events: Sequence[Event]) -> None:
        """These events are committed: the transport may forget them. Called from the engine's thread;
        returns soon and does not raise."""

    @abc.abstractmethod
    def nack(self, events: Sequence[Event], delay: float) -> None:
        """These events were not committed: have them delivered again, not before ``delay`` seconds
        where the transport can wait. Called from the engine's thread; returns soon, does not raise."""

    @abc.abstractmethod
    def stop(self, deadline: float) -> None:
        """Take in nothing more, wait for what is in hand, close the connection.

        Called once, from a thread of its own, while the engine goes on to ack and release from its
        thread. Returns when all that was emitted is acked or released and the transport knows it, at
        the latest at the deadline; what is not acked by then is given back.

        :param deadline: ``time.monotonic()`` seconds.
        """

    @abc.abstractmethod
    def status(self) -> SourceStatus:
        """The figures of this moment; cheap, never blocks."""

    def probe(self) -> None:
        """Connect once, take nothing in, and disconnect; for a check before anything is started.

        May take long where a network swallows packets: the caller runs it in a thread of its own.

        :raises SourceError: when the transport cannot be reached or refuses us; says why.
        :raises NotImplementedError: when the driver cannot tell, which is the default.
        """
        raise NotImplementedError

    def cursor(self, events: Sequence[Event]) -> str | None:
        """The durable position once these events (all of this source, in order) are committed.

        It is written in the same transaction as their changes. None: the transport keeps the position.
        """
        return None
