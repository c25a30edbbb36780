# SPDX-License-Identifier: Apache-2.0
"""Who may speak of what: the one rule of ``[handler_dcm] source_policy``.

An event has one speaker. It is the account in the NATS subject, which the server guards, else the CloudEvents source.

With ``bind``, the first speaker that reports on the instances of a provider is bound to it: a ``provider_binding``
entity. From then on, others are refused, except those that ``[handler_dcm] sources`` lists for the provider, and the
agent of the instance. So one that was never seen before changes nothing of a provider that has one, nor its state.

With ``enforce``, only what ``sources`` lists is allowed. ``warn`` applies what ``enforce`` refuses.

Its only state is what was logged. For one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from oslo_log import log as logging

from watcher_sync.events import Event
from watcher_sync.exceptions import UnauthorisedEvent
from watcher_sync.extensions.dcm.handler.payloads import agent_name_of, speaker_of
from watcher_sync.extensions.dcm.kinds import Provider, binding_id
from watcher_sync.model.changes import Upsert, Version
from watcher_sync.model.view import View

LOG = logging.getLogger(__name__)

BINDING: Final = "provider_binding"

_WARNING_INTERVAL_SECONDS: Final = 60.0
"""Seconds between two warnings about one speaker."""

_MAX_LOGGED: Final = 1000
"""Speakers and bindings whose last line is remembered."""


class Authorship:
    """The rule, with the policy that says what follows from a violation."""

    def __init__(self, policy: str, sources: Mapping[str, str], monotonic: Callable[[], float]) -> None:
        """:param policy: ``off``, ``warn``, ``bind`` or ``enforce``.

        :param sources: provider -> its speakers, separated by spaces.
        """
        self._is_off = policy == "off"
        self._binds = policy == "bind"
        self._warns = policy == "warn"
        self.enforces = policy == "enforce"
        """Whether an instance without a provider takes no event."""
        self.compares_types = self.enforces or self._warns
        """Whether an event under another service type than the row's is refused."""
        self._sources = {provider: frozenset(speakers.split()) for provider, speakers in sources.items()}
        self._monotonic = monotonic
        self._warned: dict[str, float] = {}
        self._bound_by: dict[str, str] = {}
        """Binding -> the event that made it, of those that were logged."""

    def check(self, event: Event, provider: str | None, view: View, agent: str | None = None) -> bool:
        """Whether the speaker may speak of a provider, but has to be bound to it.

        :param provider: None: it is unknown, and any speaker may.
        :param agent: the agent of the instance; it has no bindings, but a list of speakers.
        :raises UnauthorisedEvent: it may not.
        """
        if self._is_off:
            return False
        speaker = speaker_of(event)
        if speaker is None:
            self._refuse(event.channel, _malformed(event))
            return False
        if not self._binds:
            self._require_listed(speaker, [name for name in (provider, agent) if name is not None])
            return False
        if provider is None:
            return False
        if view.get(BINDING, binding_id(provider, speaker)) is not None:
            return False
        if speaker in self._sources.get(provider, ()) or not view.by(BINDING, "provider_name", provider):
            return True
        if agent is None or agent_name_of(speaker) != agent:
            _refuse_unbound(speaker, provider, view)
        return False

    def check_state(self, event: Event, provider: str, entity_id: str, view: View) -> None:
        """Check that the speaker may speak of the state of a provider in a service type. It is bound to nothing.

        :param entity_id: of the provider in the service type. The agents of its instances may speak of it.
        :raises UnauthorisedEvent: it may not.
        """
        agent = agent_name_of(speaker_of(event) or "")
        instances = view.by("service_type_instance", "provider_id", entity_id)
        has_instance = any(getattr(instance, "agent_name", None) == agent for instance in instances)
        self.check(event, provider, view, agent if has_instance else None)

    def allows_state(self, event: Event, provider: Provider, view: View) -> bool:
        """Whether the speaker may speak of the state of a provider that is known."""
        try:
            self.check_state(event, provider.name or "", provider.id, view)
        except UnauthorisedEvent:
            return False
        return True

    def refuse_type(self, event_type: str, row: Any) -> None:
        """Refuse an event under a service type that is neither the row's nor declared by it.

        :raises UnauthorisedEvent: where the policy is ``enforce``.
        """
        wrong = (
            f"type: {event_type[:64]!r} is not the service type of service_type_instance {row.id}, {row.service_type!r}"
        )
        self._refuse(row.id, wrong)

    def binding(self, event: Event, provider: str, version: Version) -> Upsert:
        """The change that binds the speaker to the provider."""
        speaker = speaker_of(event) or event.origin
        entity_id = binding_id(provider, speaker)
        if self._bound_by.get(entity_id) != event.id:  # a batch may be dispatched twice
            _remember(self._bound_by, entity_id, event.id)
            LOG.info("source %r is bound to the provider %r from now on", speaker, provider)
        return Upsert(BINDING, entity_id, version, {"state": {"provider_name": provider, "source": speaker}})

    def _require_listed(self, speaker: str, names: Sequence[str]) -> None:
        """Refuse a speaker that the option lists for none of these providers and agents."""
        if names and not any(speaker in self._sources.get(name, ()) for name in names):
            listed = " and ".join(repr(name[:64]) for name in names)
            self._refuse(
                speaker, f"source: {speaker[:64]!r} is none of those that [handler_dcm] sources lists for {listed}"
            )

    def _refuse(self, speaker: str, wrong: str) -> None:
        """Raise, or log a warning, at most once a minute for each speaker."""
        if not self._warns:
            raise UnauthorisedEvent(wrong)
        now = self._monotonic()
        if now - self._warned.get(speaker, -_WARNING_INTERVAL_SECONDS) >= _WARNING_INTERVAL_SECONDS:
            _remember(self._warned, speaker, now)
            LOG.warning("%s; applied all the same, see [handler_dcm] source_policy", wrong)


def _remember(logged: dict[str, Any], key: str, value: Any) -> None:
    if len(logged) >= _MAX_LOGGED:
        logged.clear()
    logged[key] = value


def _refuse_unbound(speaker: str, provider: str, view: View) -> NoReturn:
    """:raises UnauthorisedEvent: the speaker is bound to other providers, or to none."""
    others = sorted(getattr(other, "provider_name", "") for other in view.by(BINDING, "source", speaker))
    if others:
        raise UnauthorisedEvent(
            f"source: {speaker[:64]!r} is bound to the provider {others[0][:64]!r}, and not to {provider[:64]!r}; "
            "see watcher-sync provider binding list"
        )
    raise UnauthorisedEvent(
        f"source: {speaker[:64]!r} is not bound to the provider {provider[:64]!r}, which has another one; "
        "see watcher-sync provider binding list, and list a further source in [handler_dcm] sources"
    )


def _malformed(event: Event) -> str:
    return (
        f"NATS subject: {event.channel[:64]!r} is neither dcm.providers.<provider>.<service type> nor"
        " dcm.providers.<provider>.<service type>.instances.<id>.status with a provider without dots"
    )
