# SPDX-License-Identifier: Apache-2.0
"""The base class of handlers: a pure translation of one dialect's events into changes of the model.

A handler plugin is a class that an entry point in the group ``watcher_sync.handlers`` names. It does no I/O and has no
state between events. It does not depend on the order of arrival. It puts a version on every change, and the model's
ordering guard decides which change is newer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from oslo_config import cfg


class Handler:
    """Base of all handlers.

    :cvar events: event type or pattern -> name of the method that handles it. In a pattern ``*``
        matches any characters, dots included. Exact entries win over patterns and longer patterns
        over shorter ones. An entry mapped to None says that the type is known and deliberately ignored.
    :cvar options: ``oslo.config`` options of this handler, registered in the group
        ``handler_<entry point name>`` before the handler is made.

    A method gets the event and a read-only view (the model plus what the batch changed so far), and
    yields or returns changes. It may raise :class:`~watcher_sync.exceptions.InvalidEvent` (quarantine)
    or :class:`~watcher_sync.exceptions.NotYet` (park until the entity exists). Any other exception is
    a bug of the handler: the event goes to quarantine with the traceback, the batch goes on.
    """

    events: ClassVar[Mapping[str, str | None]] = {}
    options: ClassVar[list[cfg.Opt]] = []
    failures: Sequence[tuple[str, str]] = ()
    """(name, reason) of plugins of its own that a handler could not load, to be shown with failed handlers."""
    namespace_projects: Mapping[tuple[str, str], str] = MappingProxyType({})
    """(cluster, namespace) -> the project that the options of the sources map it to; set when the handler is loaded."""

    def __init__(self, conf: Any = None) -> None:
        """:param conf: this handler's option group; None where it declares no options."""
        self.conf = conf
