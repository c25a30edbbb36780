# SPDX-License-Identifier: Apache-2.0
"""Decides which source may bring which events.

A :class:`Grant` says what one source may bring: its envelopes, the event types that its driver declares, and those
whose handler names the driver. The option ``event_types`` of the source makes that narrower, never wider. An event
type that no handler declares has no effect, so it is ignored and not refused.

Every event passes :meth:`Authority.refusal` in the commit cycle: of engines, recordings, ``POST /v1/events`` and
replays of the quarantine. Parked events passed it when they arrived. Reserved types, such as
``kubernetes.pod.listed``, come without an envelope and from our own driver only.

The decision depends on source, envelope and type, or else the channel. It is cached. For any thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from watcher_sync.dispatch import Dialect, Dispatcher, matches
from watcher_sync.events import CLOUD_EVENTS, KNOWN_BEFORE, KUBERNETES_WATCH, NATIVE, OSLO, Event
from watcher_sync.exceptions import UNAUTHORISED, ConfigError
from watcher_sync.wire.envelopes import text_of

API: Final = "api"
"""The source of events that ``POST /v1/events`` brings."""
REPLAY: Final = "replay"
"""The source of recorded events, if the administrator names no other."""

_MAX_CACHED: Final = 4096
"""Decisions in the cache. Event types come from outside, so it is bounded."""
_MAX_TYPE_CHARS: Final = 64
_UNKNOWN: Final = object()


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What one source may bring."""

    source: str
    """Its name in messages, such as ``source dcm (driver nats_jetstream)``."""
    driver: str = ""
    """The name by which handlers allow it; empty where none can."""
    envelopes: frozenset[str] = frozenset()
    event_types: tuple[str, ...] = ()
    """Types and patterns that it may bring beside those whose handler names the driver. Reserved ones are not in it."""
    only: tuple[str, ...] | None = None
    """The option that makes it narrower; None where it is not set."""
    option: str = ""
    """The name of this option, such as ``[source_dcm] event_types``."""


Grants = Callable[[str], Grant | None]
"""Name of a source -> its grant; None where this process knows no such source."""

POSTED: Final = Grant(source="POST /v1/events", envelopes=frozenset((CLOUD_EVENTS,)), event_types=("*",))
"""Events of the API's clients: every public dialect. Policy rules decide who may post."""


def recording(source: str) -> Grant:
    """Recorded events, which an administrator replays: every public dialect."""
    return Grant(
        source=f"recording {source}",
        envelopes=frozenset((OSLO, CLOUD_EVENTS, KUBERNETES_WATCH)),
        event_types=("*",),
    )


def with_own_sources(grants: Grants | None = None) -> Grants:
    """The grants of the API and of recordings, and those of the configured sources."""
    own = {API: POSTED, REPLAY: recording(REPLAY)}

    def grant_of(source: str) -> Grant | None:
        return own.get(source) or (grants(source) if grants is not None else None)

    return grant_of


class Authority:
    """The decisions of one process."""

    def __init__(self, dispatcher: Dispatcher, grants: Grants) -> None:
        """:param grants: is asked once for each source, when its first event comes."""
        self._dispatcher = dispatcher
        self._grant_of = functools.lru_cache(maxsize=256)(grants)
        self._decisions: dict[tuple[str, str, str], str | None] = {}

    def refusal(self, event: Event) -> str | None:
        """Why the event's source may not bring it; None if it may. O(1) once cached."""
        event_type = event.type
        if event.channel:
            event_type = self._dispatcher.routed_type(event_type, event.channel)
        key = (event.source, event.envelope, event_type)
        known = self._decisions.get(key, _UNKNOWN)
        if known is not _UNKNOWN:
            return known  # type: ignore[return-value]  # of the cache, so a reason or None
        if len(self._decisions) >= _MAX_CACHED:
            self._decisions.clear()
        reason = self._decisions[key] = self._decide(*key)
        return reason

    def check(self, source: str) -> None:
        """Check the option that makes a source narrower.

        :raises ConfigError: it names a type that the source may not bring anyway.
        """
        grant = self._grant_of(source)
        if grant is None or grant.only is None:
            return
        allowed = [*grant.event_types]
        for dialect in map(self._dispatcher.dialect, self._dispatcher.dialects):
            if grant.driver in dialect.drivers:
                allowed += dialect.patterns
        for pattern in grant.only:
            if not any(overlap(pattern, other) for other in allowed):
                raise ConfigError(
                    f"{grant.option}: {pattern!r} is nothing that {grant.source} may bring; it may bring "
                    f"{', '.join(sorted(allowed)) or 'nothing'}. The option makes this narrower and never wider"
                )

    def _decide(self, source: str, envelope: str, event_type: str) -> str | None:
        grant = self._grant_of(source)
        shown = repr(event_type[:_MAX_TYPE_CHARS])
        if grant is None:
            return f"{UNAUTHORISED}: source {source} is not in [engine] enabled_sources, so it may not bring {shown}"
        may_not = f"{UNAUTHORISED}: {grant.source} may not bring {shown}"
        if envelope not in grant.envelopes and envelope != KNOWN_BEFORE:
            return f"{may_not} in the envelope {envelope}, only in {_names(grant.envelopes)}{_see(grant)}"
        name = self._dispatcher.dialect_of(event_type)
        if name is None:
            return None
        why = _objection(grant, self._dispatcher.dialect(name), envelope, event_type)
        return None if why is None else f"{may_not} in the envelope {envelope or 'of its arrival'}: {why}"


def _objection(grant: Grant, dialect: Dialect, envelope: str, event_type: str) -> str | None:
    """Why a grant does not cover a type of a dialect; None if it does."""
    is_native = envelope in (NATIVE, KNOWN_BEFORE)
    if dialect.is_reserved(event_type) and not (grant.driver in dialect.drivers and is_native):
        return f"only the driver {_names(dialect.drivers)} makes this type; no option allows it"
    if dialect.envelopes and not is_native and envelope not in dialect.envelopes:
        return f"the handler {dialect.name} takes its origin from the configuration, not from this envelope"
    if grant.driver not in dialect.drivers and not matches(event_type, grant.event_types):
        return f"it is an event of {dialect.name}, whose drivers are: {_names(dialect.drivers)}{_see(grant)}"
    if grant.only is not None and not matches(event_type, grant.only):
        return f"{grant.option} leaves it out"
    return None


def with_envelope(event: Event, reason: str) -> Event:
    """An event that its source may not bring, for the quarantine.

    It has its envelope again, so that a replay decodes it, and decides about the envelope and the type once more.
    """
    raw = text_of(event)
    return event if raw is None else msgspec.structs.replace(event, data=raw, undecodable=reason)


@functools.lru_cache(maxsize=1024)
def overlap(one: str, other: str) -> bool:
    """Whether an event type can match both patterns."""
    if not one or not other:
        return not (one or other).strip("*")
    if one[0] == "*":
        return overlap(one[1:], other) or overlap(one, other[1:])
    if other[0] == "*":
        return overlap(one, other[1:]) or overlap(one[1:], other)
    return one[0] == other[0] and overlap(one[1:], other[1:])


def _see(grant: Grant) -> str:
    return f" (see {grant.option})" if grant.option else ""


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
