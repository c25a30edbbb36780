# SPDX-License-Identifier: Apache-2.0
"""The base class of sources: a source is a configured driver that brings events in and returns acknowledgements.

A driver is a class that an entry point in the group ``watcher_sync.sources`` names. An instance of it is one
``[source_<name>]`` section. The engine's threads call it; it emits from its own threads.

What a source guarantees:

* It never drops an event. What it cannot decode it emits with ``undecodable`` set.
* It acknowledges only what the engine acked. At-least-once is enough: the ordering guard makes redelivery harmless.
* It reconnects by itself, without a limit, with jittered back-off. ``start`` returns soon, connected or not.
* The events of one ``emit`` stay in order, and so do two calls of ``emit`` by one thread.
"""

from __future__ import annotations

import abc
import datetime
import enum
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec
from oslo_log import log as logging

from watcher_sync.events import Event

if TYPE_CHECKING:
    from oslo_config import cfg

    from watcher_sync.conf.findings import NamedFile

LOG = logging.getLogger(__name__)

_MOST_REASONS = 10

Emit = Callable[[Sequence[Event]], None]
"""Pass events to the engine, in order. Blocks while the engine has enough of this source's events in flight, which is
the back-pressure. Raises :class:`IntakeClosed` once the engine takes nothing more."""


class IntakeClosed(Exception):
    """The engine takes no more events: the source nacks at its stop what it could not emit."""


class SourceState(enum.StrEnum):
    """The state of a source, as operators see it."""

    STARTING = "starting"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    STOPPED = "stopped"
    FAILED = "failed"


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A source's own figures."""

    state: SourceState
    detail: str = ""
    """Why it is not connected, or a remark on the connection, in one line for a person."""
    lag: int | None = None
    """Events that wait in the transport; None where that is unknown."""
    last_event_at: datetime.datetime | None = None
    """When the last event arrived, aware UTC."""
    reconnects: int = 0
    """How often the source reconnected since its start."""
    redelivered: int | None = None
    """Events that the transport delivered before and that are not acked; None where that is unknown."""
    gaps: int = 0
    """How often the source found, since its start, that events are missing in the transport."""
    lost: int = 0
    """Events that are missing, as far as their number is known."""
    last_gap_at: datetime.datetime | None = None
    """When it found the last gap, aware UTC. A change has the engine run all reconcilers."""


_OUTAGES = {
    SourceState.DISCONNECTED: "source %s: disconnected: %s; retrying",
    SourceState.FAILED: "source %s: failed: %s; retrying",
}
"""The lines of the log."""


class StateLog:
    """Logs each change of the state of one source, and each reason of an outage: one line each. For any thread.

    The detail of a connected source is not a part of its state: a driver logs such a remark itself.
    """

    def __init__(self, name: str) -> None:
        """:param name: of the source."""
        self._name = name
        self._lock = threading.Lock()  # guards the attributes below, and orders what two threads read
        self._state = SourceState.STARTING
        self._reasons: set[tuple[SourceState, str]] = set()
        """Those of this outage that are in the log: attempts may fail by turns for the same few reasons."""

    def observe(self, status: Callable[[], SourceStatus]) -> None:
        """Log the state if it is another one, or if its reason is new. At most 10 reasons of one outage are logged.

        :param status: returns the status of this moment.
        """
        with self._lock:
            now = status()
            before, self._state = self._state, now.state
            if now.state is SourceState.CONNECTED:
                self._reasons.clear()
                if before is not now.state:
                    LOG.info("source %s: connected", self._name)
            elif now.state in _OUTAGES:
                detail = " ".join(now.detail.split())
                is_known = (now.state, detail) in self._reasons or len(self._reasons) >= _MOST_REASONS
                if not is_known:
                    self._reasons.add((now.state, detail))
                    LOG.warning(_OUTAGES[now.state], self._name, detail)


class Source(abc.ABC):
    """Base of all source drivers.

    :cvar envelopes: names of the envelopes that the driver may bring (constants of :mod:`watcher_sync.events`):
        ``NATIVE`` for events that it makes itself. A driver that declares none is not started.
    :cvar event_types: event types or patterns that it may bring, beside those whose handlers name the driver
        (:attr:`watcher_sync.handlers.base.Handler.drivers`). All other events go to quarantine as unauthorised.
    :cvar options: ``oslo.config`` options of the driver, registered in the group ``source_<name>``.
    :cvar waits_for_ack: True when the driver emits nothing more until what it emitted is acked or nacked. The
        engine then commits at once instead of lingering for more.
    :cvar counts_epochs: True when the driver numbers its events itself. Its ``cursor`` is then the epoch of this
        instance, a decimal number. The database has counted it, so it is greater than those of all instances before.
    :ivar name: of the source in ``[engine] enabled_sources``.
    :ivar conf: the whole configuration.
    :ivar group: the values of ``[source_<name>]``.
    :ivar saved_cursor: the durable position of the last committed event, as :meth:`cursor` returned it; None at the
        first start, or where the driver has none.
    """

    envelopes: ClassVar[Collection[str]] = ()
    event_types: ClassVar[Collection[str]] = ()
    options: ClassVar[list[cfg.Opt]] = []
    waits_for_ack: ClassVar[bool] = False
    counts_epochs: ClassVar[bool] = False

    broken: str = ""
    """Why the engine wants another instance: a call of this one raised. The engine sets it."""

    stored_fields: str = ""
    """A digest of the kinds and fields that the engine stores. The engine sets it before the start."""

    stored_kinds: Collection[str] = ()
    """The names of these kinds. The engine sets them before the start."""

    state_log: StateLog | None = None
    """Logs the state. The engine sets it before the start, so that it outlasts this instance."""

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:param name: the source's name; its options are ``conf['source_' + name]``.

        :param conf: the whole configuration.
        :param cursor: the durable position of the last committed event, as :meth:`cursor` returned it; None at the
            first start, or where the driver has none.

        Checks the options and does nothing else: a check of the configuration makes instances that never start.

        :raises ConfigError: naming the option that is wrong.
        """
        self.name = name
        self.conf = conf
        self.group = conf[f"source_{name}"]
        self.saved_cursor = cursor

    @classmethod
    def origin_of(cls, name: str, conf: cfg.ConfigOpts) -> str:
        """The origin of all events of a source with these options; empty, the default: each event names its own.

        :param name: of the source.
        """
        return ""

    @staticmethod
    def insecure_transports(conf: cfg.ConfigOpts, section: str) -> Iterable[str]:
        """Findings about a connection to another machine without TLS or verification, one line each.

        ``watcher-sync-status upgrade check`` shows them. The functions of :mod:`watcher_sync.conf.findings` help.

        :param section: of a source, whose options are registered.
        :raises ConfigError: an option is wrong, so there is no finding.
        """
        return ()

    @staticmethod
    def named_files(conf: cfg.ConfigOpts, section: str) -> Iterable[NamedFile]:
        """The files that options name, and that other users must not read or change, for the same check."""
        return ()

    @abc.abstractmethod
    def start(self, emit: Emit) -> None:
        """Begin to emit events from threads of the source; returns without waiting for the connection.

        :raises SourceError: when the source cannot work as configured; the supervisor replaces it after a back-off.
        """

    @abc.abstractmethod
    def ack(self, events: Sequence[Event]) -> None:
        """These events are committed: the transport may forget them.

        The engine's thread calls it, so it returns soon. What it raises has the supervisor replace this instance. The
        transport then repeats what it does not know as acknowledged, which changes nothing.
        """

    @abc.abstractmethod
    def nack(self, events: Sequence[Event], delay: float) -> None:
        """These events were not committed: the transport, or the next instance, shall bring them again.

        The engine calls it when its lead ends: a stop has passed its deadline, the lease is lost, or the database went
        back in time. It commits nothing more in that lead, so no stored position is after these events. During an
        outage of the database it holds the events and calls neither method.

        The engine's thread calls it, so it returns soon. What it raises has the supervisor replace this instance.

        :param delay: seconds before the redelivery, where the transport can wait.
        """

    @abc.abstractmethod
    def stop(self, deadline: float) -> None:
        """Read nothing more, wait for the events in flight, close the connection.

        Called once, from a thread of its own, while the engine's thread still acks and nacks. Returns when the
        transport knows each ack and nack, at the latest at the deadline. What is not acked by then is nacked.

        :param deadline: ``time.monotonic()`` seconds.
        """

    @abc.abstractmethod
    def status(self) -> SourceStatus:
        """The figures of this moment; cheap, never blocks. Any thread calls it."""

    def log_state(self) -> None:
        """Log the state if it changed. The engine does so once a second: a driver logs no state itself.

        A driver may also call it after each change, so that the log has a state of less than a second, too. Any thread
        calls it, without a lock that :meth:`status` takes.
        """
        if self.state_log is None:
            self.state_log = StateLog(self.name)
        self.state_log.observe(self.status)

    def probe(self) -> None:
        """Connect once, read no event, and disconnect; a check before the engine starts.

        It may take long where a network drops packets, so the caller runs it in a thread of its own.

        :raises SourceError: when the transport is unavailable or refuses the login; says why.
        :raises NotImplementedError: when the driver cannot check, which is the default.
        """
        raise NotImplementedError

    def cursor(self, events: Sequence[Event]) -> str | None:
        """The durable position once these events (all of this source, in order) are committed.

        The engine writes it in the transaction of their changes. None: the transport stores the position.
        """
        return None

    def rewind_to_cursor(self) -> bool:
        """Have this instance, which is not started yet, bring again everything after its cursor.

        The caller knows that the database went back in time. The transport may know as acknowledged what the database
        does not have any more.

        :returns: whether it will; False if what was acknowledged is gone, which is the default.
        """
        return False

    def cursor_at(self, to: str) -> str:
        """The durable position at a place in the transport's history, as the constructor takes it.

        :param to: ``first``, or the driver's word for a position, or an ISO 8601 time.
        :raises ConfigError: this source has no such place, or no position that can be set.
        :raises NotImplementedError: no source of this driver has a position that can be set, which is the default.
        """
        raise NotImplementedError


class GapTotal(msgspec.Struct, frozen=True):
    """What was missing since the start of the source."""

    count: int = 0
    lost: int = 0
    """Messages, as far as their number is known. In a stream of RabbitMQ, offsets that are not delivered are among
    them."""
    last_at: datetime.datetime | None = None
    note: str = ""
    """The last one, in one line."""


class Gaps:
    """Counts the gaps of one source. Written by one thread, read by any."""

    def __init__(self) -> None:
        self.total = GapTotal()
        """Replaced as a whole, so that all fields of what a reader takes are of the same moment."""

    def add(self, note: str, lost: int = 0) -> None:
        """Events are missing. The engine then runs all reconcilers.

        :param note: what is missing, in one line. Its log line is written before, so that it explains the figures.
        :param lost: messages, as far as their number is known.
        """
        total = self.total
        self.total = GapTotal(total.count + 1, total.lost + lost, datetime.datetime.now(datetime.UTC), note)
