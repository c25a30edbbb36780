# SPDX-License-Identifier: Apache-2.0
"""What a handler is: a pure translation from one dialect's events into changes of the model.

A handler plugin is a class named by an entry point in the group ``watcher_sync.handlers``. It does no
I/O, keeps no state between events, and never looks at the order in which events arrive: it puts a
version on every change, and the model's ordering guard does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from oslo_config import cfg


class Handler:
    """Base of all handlers.

    :cvar events: event type or pattern -> name of the method that handles it. In a pattern ``*``
        stands for any characters, dots included. Exact entries win over patterns and longer patterns
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
    """(name, reason) of plugins of its own that a handler could not load: shown with the handlers that could not
    be loaded themselves."""

    def __init__(self, conf: Any = None) -> None:
        """:param conf: this handler's option group; None where it declares no options."""
        self.conf = conf
