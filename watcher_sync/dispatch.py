# SPDX-License-Identifier: Apache-2.0
"""The dispatch table: event type -> method of a handler plugin.

An exact entry wins over every pattern, and a longer pattern over a shorter one. Of two equally long patterns the first
in alphabetical order wins. In a pattern ``*`` matches any characters, dots included.

A handler may claim channels, such as NATS subjects. An event of a type that no handler declares goes by its channel.

Two plugins that claim the same type or pattern would make the result depend on the order of installation, so the
table refuses both. A plugin that fails to load is recorded for operators, and the others run.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError, PluginConflict, described, interrupts, text_of
from watcher_sync.model.changes import Change
from watcher_sync.model.scopes import DeclaresScopes, EntityScope
from watcher_sync.model.view import View
from watcher_sync.plugins import load_plugins, register_options
from watcher_sync.wire.limits import MAX_TEXT_CHARS

LOG = logging.getLogger(__name__)

NAMESPACE = "watcher_sync.handlers"

_MAX_CACHED_TYPES = 4096
"""Event types come from outside, so the cache is bounded."""

HandlerMethod = Callable[[Event, View], Iterable[Change] | None]


class Handles(Protocol):
    """The part of a handler that the table needs; :class:`watcher_sync.handlers.base.Handler` has it."""

    @property
    def events(self) -> Mapping[str, str | None]:
        """Event type or pattern -> name of the method."""


class Entry(msgspec.Struct, frozen=True):
    """One line of the dispatch table."""

    pattern: str
    method: str
    """Name of the method; empty where the type is deliberately ignored."""
    plugin: str
    """Name of the entry point."""
    call: HandlerMethod | None

    @property
    def handler(self) -> str:
        """``plugin.method``, for operators."""
        return f"{self.plugin}.{self.method}" if self.method else f"{self.plugin} (ignored)"


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """The event types of one plugin, and who may bring them; the declarations of its handler."""

    name: str
    """Name of the plugin."""
    patterns: tuple[str, ...] = ()
    drivers: frozenset[str] = frozenset()
    envelopes: frozenset[str] = frozenset()
    reserved: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    scopes: Callable[[str], list[EntityScope]] = lambda _origin: []
    """Origin of a source -> the entities that exist only through it."""

    def is_reserved(self, event_type: str) -> bool:
        """Whether only a driver of this dialect can make the type; no message can bring it."""
        return matches(event_type, self.reserved)


class Failure(msgspec.Struct, frozen=True):
    """A plugin that could not be loaded."""

    plugin: str
    reason: str


class Dispatcher:
    """The dispatch table. Immutable except for its cache; one thread uses it."""

    def __init__(self, handlers: Iterable[tuple[str, Handles]], failures: Iterable[Failure] = ()) -> None:
        """:param handlers: (plugin name, handler) pairs.

        :param failures: plugins that could not be loaded, to be shown.
        :raises PluginConflict: when two plugins claim the same type or pattern; names both.
        :raises TypeError: when a handler names a method that it does not have.
        """
        self.failures = tuple(failures)
        self._exact: dict[str, Entry] = {}
        self._dialects: dict[str, Dialect] = {}
        self.handlers: list[Handles] = []
        patterns: dict[str, Entry] = {}
        for plugin, handler in handlers:
            self.handlers.append(handler)
            self._dialects[plugin] = _dialect(plugin, handler)
            for pattern, method in handler.events.items():
                call = getattr(handler, method, None) if method is not None else None
                if method is not None and not callable(call):
                    raise TypeError(f"handler {plugin!r} has no method {method!r} for {pattern!r}")
                table = patterns if "*" in pattern else self._exact
                taken = table.get(pattern)
                if taken is not None:
                    raise PluginConflict(
                        f"the handlers {taken.plugin!r} and {plugin!r} both claim the event type {pattern!r}"
                    )
                table[pattern] = Entry(pattern, method or "", plugin, call)
        ordered = sorted(patterns.values(), key=lambda e: (-len(e.pattern), e.pattern))
        self._patterns = [(_compiled(entry.pattern), entry) for entry in ordered]
        self._cache: dict[str, Entry | None] = {}
        self._channels = _channels(self._dialects.values())
        self._by_channel: dict[str, Entry | None] = {}
        self.dialects = tuple(sorted(self._dialects))
        """The names of the plugins that handle events, such as ``nova``, ``dcm`` and ``kubernetes``."""

    def dialect_of(self, event_type: str) -> str | None:
        """The name of the plugin whose dialect this event type is of; None where no handler declares it."""
        entry = self.find(event_type)
        return entry.plugin if entry is not None else None

    def dialect(self, name: str) -> Dialect:
        """The dialect of a plugin.

        :raises KeyError: there is no such plugin.
        """
        return self._dialects[name]

    def routed_type(self, event_type: str, channel: str) -> str:
        """What an event goes by: its type, or its channel where no handler declares the type and one the channel."""
        if not channel or self.find(event_type) is not None:
            return event_type
        return channel if self.find(event_type, channel) is not None else event_type

    def find(self, event_type: str, channel: str = "") -> Entry | None:
        """The entry that an event of this type goes to, or None where no handler declares it. O(1) once cached.

        No handler gets a type of more than 255 characters.

        :param channel: of the event; decides where no handler declares its type.
        """
        try:
            entry = self._cache[event_type]
        except KeyError:
            entry = self._find(event_type)
        if entry is None and channel:
            return self._find_by_channel(channel)
        return entry

    def _find_by_channel(self, channel: str) -> Entry | None:
        try:
            return self._by_channel[channel]
        except KeyError:
            pass
        if len(channel) > MAX_TEXT_CHARS:
            return None
        plugin = next((name for match, name in self._channels if match.match(channel)), None)
        entry = self._find(channel) if plugin is not None else None
        if entry is not None and entry.plugin != plugin:
            entry = None
        if len(self._by_channel) >= _MAX_CACHED_TYPES:
            self._by_channel.clear()
        self._by_channel[channel] = entry
        return entry

    def _find(self, event_type: str) -> Entry | None:
        if len(event_type) > MAX_TEXT_CHARS:
            return None
        entry = self._exact.get(event_type)
        if entry is None:
            entry = next((e for match, e in self._patterns if match.match(event_type)), None)
        if len(self._cache) >= _MAX_CACHED_TYPES:
            self._cache.clear()  # types that were made up must not keep the others out
        self._cache[event_type] = entry
        return entry

    def handler_of(self, event_type: str, channel: str = "") -> str:
        """``plugin.method`` of a type, or else of a channel, that was found before; any thread may ask."""
        entry = self._cache.get(event_type) or self._by_channel.get(channel)
        return entry.handler if entry is not None else "(none)"

    def table(self) -> Iterator[Entry]:
        """All entries in the order in which they win: exact ones by name, then patterns."""
        yield from (self._exact[name] for name in sorted(self._exact))
        yield from (entry for _, entry in self._patterns)


def load_handlers(conf: cfg.ConfigOpts) -> Dispatcher:
    """The table of all installed handler plugins, with their options registered and the configuration read.

    :raises PluginConflict: when two plugins claim the same event type, or have the same name.
    :raises ConfigError: when a handler refuses the configuration.
    """
    failures: list[Failure] = []

    def failed(name: str, exc: BaseException) -> None:
        LOG.error("The handler plugin %s cannot be loaded: %s", name, text_of(exc))
        failures.append(Failure(name, described(exc)))

    handlers: dict[str, Handles] = {}
    for extension in load_plugins(NAMESPACE, failed):
        if extension.name in handlers:
            raise PluginConflict(
                f"two packages install a handler named {extension.name!r}: "
                f"{type(handlers[extension.name]).__module__} and {extension.plugin.__module__}"
            )
        fatal: type[ConfigError] = PluginConflict
        try:
            handler = make_handler(extension.name, extension.plugin, conf)
            Dispatcher([(extension.name, handler)])  # not used: raises if a method is missing
            fatal = ConfigError  # a wrong option of its own group costs this handler alone
            configure(handler, conf)
            handlers[extension.name] = handler
            failures.extend(Failure(*failure) for failure in getattr(handler, "failures", ()))
        except BaseException as exc:
            if isinstance(exc, fatal) or interrupts(exc):
                raise
            failed(extension.name, exc)
    return Dispatcher(handlers.items(), failures)


def make_handler(name: str, plugin: Any, conf: cfg.ConfigOpts) -> Handles:
    """One handler with its options registered in ``[handler_<name>]``.

    :raises TypeError: when the plugin is not a handler class.
    """
    if not (isinstance(plugin, type) and isinstance(getattr(plugin, "events", None), Mapping)):
        raise TypeError(f"{plugin!r} is not a handler class")
    handler: Handles
    options = getattr(plugin, "options", [])
    if not options:
        handler = plugin()
        return handler
    group = f"handler_{name}"
    register_options(conf, options, group)
    handler = plugin(conf[group])
    return handler


def configure(handler: Handles, conf: cfg.ConfigOpts) -> None:
    """Pass the configuration to a handler that has the method ``configure``.

    :raises ConfigError: the handler refuses the configuration.
    """
    getattr(handler, "configure", lambda _conf: None)(conf)


def matches(event_type: str, patterns: Iterable[str]) -> bool:
    """Whether the event type is one of these types and patterns. Slow: the caller caches the answer."""
    return any(_compiled(pattern).match(event_type) for pattern in patterns)


def _dialect(plugin: str, handler: Handles) -> Dialect:
    """:raises TypeError: a declaration is a text, where a collection of texts is due."""
    declared: dict[str, tuple[str, ...]] = {}
    for name in ("drivers", "envelopes", "reserved", "channels"):
        value = getattr(handler, name, ())
        if isinstance(value, str) or not all(isinstance(item, str) for item in value):
            raise TypeError(f"handler {plugin!r}: {name} is {value!r}, not a collection of names")
        declared[name] = tuple(value)
    return Dialect(
        name=plugin,
        patterns=tuple(handler.events),
        drivers=frozenset(declared["drivers"]),
        envelopes=frozenset(declared["envelopes"]),
        reserved=declared["reserved"],
        channels=declared["channels"],
        scopes=handler.scopes if isinstance(handler, DeclaresScopes) else lambda _origin: [],
    )


def _channels(dialects: Iterable[Dialect]) -> list[tuple[re.Pattern[str], str]]:
    """(pattern, plugin), longer patterns first.

    :raises PluginConflict: two plugins claim the same channels.
    """
    claimed: dict[str, str] = {}
    for dialect in dialects:
        for pattern in dialect.channels:
            other = claimed.setdefault(pattern, dialect.name)
            if other != dialect.name:
                raise PluginConflict(f"the handlers {other!r} and {dialect.name!r} both claim the channel {pattern!r}")
    return [(_compiled(pattern), claimed[pattern]) for pattern in sorted(claimed, key=lambda p: (-len(p), p))]


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]").replace("?", "[?]")))
