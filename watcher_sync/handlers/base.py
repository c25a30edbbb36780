# SPDX-License-Identifier: Apache-2.0
"""The base class of handlers: a pure translation of one dialect's events into changes of the model.

A handler plugin is a class that an entry point in the group ``watcher_sync.handlers`` names. It does no I/O and has no
state between events. It does not depend on the order of arrival. It puts a version on every change, and the model's
ordering guard decides which change is newer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from watcher_sync.model.scopes import EntityScope

if TYPE_CHECKING:
    from oslo_config import cfg


class Handler:
    """Base of all handlers.

    :cvar events: event type or pattern -> name of the method that handles it. In a pattern ``*``
        matches any characters, dots included. Exact entries win over patterns and longer patterns
        over shorter ones. An entry mapped to None says that the type is known and deliberately ignored.
    :cvar drivers: names of the source drivers that may bring these events, such as ``oslo_messaging`` or
        ``nats_jetstream``. An event from any other driver goes to quarantine as unauthorised. Without names, only
        recordings, ``POST /v1/events`` and drivers that declare the types themselves bring them.
    :cvar envelopes: names of the envelopes in which these events may come (constants of
        :mod:`watcher_sync.events`). Empty: in each one that the driver may bring.
    :cvar reserved: those event types or patterns that only the named drivers make themselves. No message, recording
        or request can bring them, in whatever envelope.
    :cvar channels: channels or patterns of them, such as NATS subjects. An event under such a channel whose type no
        handler declares goes where its channel would go as an event type. Without a channel it is ignored.
    :cvar options: ``oslo.config`` options of this handler, registered in the group
        ``handler_<entry point name>`` before the handler is made.

    A method gets the event and a read-only view (the model plus what the batch changed so far), and
    yields or returns changes. It may raise :class:`~watcher_sync.exceptions.InvalidEvent` (quarantine)
    or :class:`~watcher_sync.exceptions.NotYet` (park until the entity exists). Any other exception is
    a bug of the handler: the event goes to quarantine with the traceback, the batch goes on.
    """

    events: ClassVar[Mapping[str, str | None]] = {}
    drivers: ClassVar[Collection[str]] = ()
    envelopes: ClassVar[Collection[str]] = ()
    reserved: ClassVar[Collection[str]] = ()
    channels: ClassVar[Collection[str]] = ()
    options: ClassVar[list[cfg.Opt]] = []
    failures: Sequence[tuple[str, str]] = ()
    """(name, reason) of plugins of its own that a handler could not load, to be shown with failed handlers."""

    def scopes(self, origin: str) -> list[EntityScope]:
        """The entities that exist only through one source; the default is none.

        An operator can remove them after the source: ``watcher-sync-manage forget-source``.

        :param origin: the origin of the source's events; empty: each event names its own.
        """
        return []

    def __init__(self, conf: Any = None) -> None:
        """:param conf: this handler's option group; None where it declares no options."""
        self.conf = conf

    def configure(self, conf: cfg.ConfigOpts) -> None:
        """Read other options than the handler's own, such as those of sources; the default reads none.

        It is called once, after the handler is made. A handler that raises another exception is left out.

        :param conf: the whole configuration. Register an option before you read it.
        :raises ConfigError: the configuration cannot work. It ends the process.
        """
