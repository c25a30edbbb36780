# SPDX-License-Identifier: Apache-2.0
"""Who may speak of what: the one rule of ``[handler_dcm] source_policy``.

An event has one speaker, and the speaker speaks of its own only:

* The speaker is the provider in the CloudEvents source. A NATS subject, subject or type that names a provider
  names the same one.
* A status event is about an instance of the speaker, under the instance's service type.
* A health event is about the speaker. An agent with another name speaks for the providers that ``[handler_dcm] agents``
  lists, or for the one in its NATS subject.
* An instance without a provider has no owner. Its events wait until the API names the provider.

Its only state is the times of warnings. For one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from oslo_log import log as logging

from watcher_sync.events import Event
from watcher_sync.exceptions import UnauthorisedEvent
from watcher_sync.handlers.dcm.payloads import claimed_providers, is_malformed_place, place_provider_of, provider_of

LOG = logging.getLogger(__name__)

_WARNING_INTERVAL_SECONDS: Final = 60.0
"""Seconds between two warnings about one speaker."""

_MAX_SPEAKERS: Final = 1000
"""Speakers whose last warning is remembered."""


class Authorship:
    """The rule, with the policy that says what follows from a violation."""

    def __init__(self, policy: str, agents: Mapping[str, str], monotonic: Callable[[], float]) -> None:
        """:param policy: ``off``, ``warn`` or ``enforce``.

        :param agents: CloudEvents source of an agent -> its providers, separated by spaces.
        """
        self._is_off = policy == "off"
        self._enforces = policy == "enforce"
        self._agents = {agent: frozenset(providers.split()) for agent, providers in agents.items()}
        self._monotonic = monotonic
        self._warned: dict[str, float] = {}

    def check_status(self, event: Event, service_type: str, row: Any) -> bool:
        """Whether the event may be applied now; False if the row has no owner yet.

        :param row: the service type instance; None where it does not exist.
        :raises UnauthorisedEvent: the event is not the owner's, and the policy is enforce.
        """
        if self._is_off:
            return True
        speaker = provider_of(event)
        wrong = _contradiction(event, speaker)
        if wrong is None and row is not None:
            wrong = _difference(event, speaker, service_type, row)
        if wrong is not None:
            self._refuse(speaker, wrong)
        return row is None or row.provider_name is not None or not self._enforces

    def check_health(self, event: Event, provider: str) -> None:
        """Check that the agent speaks for this provider.

        :raises UnauthorisedEvent: it does not, and the policy is enforce.
        """
        if self._is_off:
            return
        speaker, place = provider_of(event), place_provider_of(event)
        if is_malformed_place(event):
            self._refuse(speaker, _malformed(event))
            return
        if place is not None:
            # An agent may have a name of its own, but a provider's name has to be the right one.
            allowed = frozenset({place}) if speaker in (place, event.origin) else frozenset()
        else:
            allowed = self._agents.get(event.origin, frozenset()) | {speaker}
        if provider not in allowed:
            wrong = f"source: {event.origin[:64]!r} does not speak for the provider {provider[:64]!r}"
            self._refuse(speaker, f"{wrong}, see [handler_dcm] agents")

    def _refuse(self, speaker: str, wrong: str) -> None:
        """Raise, or log a warning, at most once a minute for each speaker."""
        if self._enforces:
            raise UnauthorisedEvent(wrong)
        now = self._monotonic()
        if now - self._warned.get(speaker, -_WARNING_INTERVAL_SECONDS) >= _WARNING_INTERVAL_SECONDS:
            if len(self._warned) >= _MAX_SPEAKERS:
                self._warned.clear()
            self._warned[speaker] = now
            LOG.warning("%s; applied all the same, see [handler_dcm] source_policy", wrong)


def _contradiction(event: Event, speaker: str) -> str | None:
    """Where the event names another provider than its source does, or its NATS subject hides the provider."""
    if is_malformed_place(event):
        return _malformed(event)
    for field, provider in claimed_providers(event):
        if provider not in (speaker, event.origin):
            return f"source: {speaker[:64]!r} is not the provider in the {field}, {provider[:64]!r}"
    return None


def _malformed(event: Event) -> str:
    return (
        f"NATS subject: {event.channel[:64]!r} is neither dcm.providers.<provider>.<service type> nor"
        " dcm.providers.<provider>.<service type>.instances.<id>.status with a provider without dots"
    )


def _difference(event: Event, speaker: str, service_type: str, row: Any) -> str | None:
    """Where the event differs from the row that it is about."""
    if row.provider_name is not None and row.provider_name not in (speaker, event.origin):
        return f"source: {speaker[:64]!r} is not the provider of service_type_instance {row.id}, {row.provider_name!r}"
    if row.service_type is not None and row.service_type != service_type:
        return (
            f"type: {service_type[:64]!r} is not the service type of service_type_instance {row.id},"
            f" {row.service_type!r}"
        )
    return None
