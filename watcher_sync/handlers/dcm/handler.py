# SPDX-License-Identifier: Apache-2.0
"""Status events of DCM's providers become the status of service-type instances.

An event has the whole status of an instance. An empty or missing message clears the old one; a missing output does
not. DELETED is a status: the row stays until its owner deletes it through the API.

The API creates the rows. An event without a row waits for it (``unknown_instance``). The API writes the facets
``spec`` and ``provider``, an event ``status`` and ``output``, so neither overwrites the other.
:mod:`watcher_sync.handlers.dcm.ordering` says which event is newer.

A provider speaks only of its own instances, and an agent only of its own provider
(:mod:`watcher_sync.handlers.dcm.authorship`).

For one thread at a time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar, Final

from msgspec import UNSET
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent, NotYet
from watcher_sync.handlers import sortable
from watcher_sync.handlers.base import Handler
from watcher_sync.handlers.dcm.authorship import Authorship
from watcher_sync.handlers.dcm.ordering import version_of
from watcher_sync.handlers.dcm.payloads import (
    HealthData,
    instance_id_of,
    provider_of,
    read_status,
    service_type_of,
    time_of,
)
from watcher_sync.handlers.dcm.service_types import ServiceTypes, load_service_types
from watcher_sync.model.changes import NEVER, WRITTEN_HERE, Change, Upsert
from watcher_sync.model.entities import ServiceTypeInstance, provider_id
from watcher_sync.model.kinds import kind_of
from watcher_sync.model.scopes import EntityScope
from watcher_sync.model.view import View

LOG = logging.getLogger(__name__)

KIND: Final = "service_type_instance"

OPTIONS: Final[list[cfg.Opt]] = [
    cfg.StrOpt(
        "unknown_status",
        default="quarantine",
        choices=[
            ("quarantine", "The event goes to quarantine, with the status in the reason."),
            ("store", "The status is stored as it came, in upper case."),
        ],
        help="""
What to do with a status that its service type does not have, and with a service type that no package declares.

Which statuses are known is in the documentation; a package adds service types, statuses and aliases
through entry points in ``watcher_sync.service_types``. A quarantined event can be replayed once it is known.
""",
    ),
    cfg.StrOpt(
        "unknown_instance",
        default="park",
        choices=[
            ("park", "The event waits until the instance is made, for ``[engine] parked_ttl``; then it expires."),
            ("create", "The instance is made from the event, with its service type and its provider."),
            ("ignore", "The event is counted as ignored."),
        ],
        help="""
What to do with an event about an instance that does not exist.

Instances are made by ``POST /v1/service_type_instances``, and a provider may be faster than that. With ``create``,
what the API writes later, by PUT, wins over what events said of service type and provider.
""",
    ),
    cfg.StrOpt(
        "source_policy",
        default="enforce",
        choices=[
            ("off", "Any source may report on any instance and any provider."),
            ("warn", "It is applied, and the log says so, at most once a minute a provider."),
            ("enforce", "The event goes to quarantine; one about an instance without a provider waits for it."),
        ],
        help="""
What to do with an event that does not come from the instance's own provider, or under another service type, and with
a warning of an agent that does not speak for the provider.

The provider of an event is in its CloudEvents source: ``dcm/providers/kubevirt`` and ``kubevirt.localhost`` are
both ``kubevirt``. A NATS subject, subject or type that names a provider has to name the same one.

The provider of an instance is the one that the API wrote, or with ``unknown_instance = create`` the one of its first
event. While the API has written none, events wait as for an instance that does not exist; with
``unknown_instance = ignore`` they are ignored.

Related options: ``agents``.
""",
    ),
    cfg.DictOpt(
        "agents",
        default={},
        help="""
Agents that speak for providers under names of their own: CloudEvents source of the agent, a colon, and its providers,
separated by spaces. For example ``agent-1: kubevirt acm, agent-2: harvester``.

An agent whose CloudEvents source or NATS subject names the provider need not be listed.

Related options: ``source_policy``.
""",
    ),
]

_NO_VERSIONS: Final = kind_of(ServiceTypeInstance).no_versions
_SPEC, _STATUS, _OUTPUT = (kind_of(ServiceTypeInstance).facet_position[f] for f in ("spec", "status", "output"))

_STATES: Final = {
    "service-type-degraded": "degraded",
    "service-type-unavailable": "unavailable",
    "service-type-available": "available",
    "service-type-recovered": "available",
}
"""How an agent's warning ends -> the provider's state. The agents of today publish the first two only."""


class DcmHandler(Handler):
    """The handler of ``dcm``."""

    events: ClassVar[Mapping[str, str | None]] = {
        "dcm.*": "on_status",
        "dcm.status.*": "on_status",
        "dcm.providers.*": "on_status",
        "dcm.agent.health.*": "on_provider_health",
        "dcm.agents.health.*": "on_provider_health",
        "service-type-*": "on_provider_health",
        "dcm.agent.*": None,
        "dcm.agents.*": None,
        "dcm.request.*": None,
    }
    drivers: ClassVar[Collection[str]] = ("nats_jetstream",)
    # DCM's own consumer subscribes to these subjects, and reads no CloudEvents type.
    channels: ClassVar[Collection[str]] = ("dcm.*",)
    options: ClassVar[list[cfg.Opt]] = OPTIONS

    def scopes(self, origin: str) -> list[EntityScope]:
        """The providers. The service type instances are those of the REST API."""
        return [EntityScope(kind="provider")]

    def __init__(
        self,
        conf: Any = None,
        *,
        services: ServiceTypes | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param conf: the group ``[handler_dcm]``; None for its defaults.

        :param services: the service types; None for the built-in ones and those of installed plugins.
        :raises PluginConflict: when two plugins disagree on a service type.
        """
        super().__init__(conf)
        if services is None:
            services, failures = load_service_types()
            self.failures = failures
            for name, reason in failures:
                LOG.error("The plugin %s cannot be loaded: %s", name, reason)
        self._services = services
        # Read once: a look-up in the configuration costs more than the rest of an event.
        self._store_unknown = _option(conf, "unknown_status") == "store"
        self._unknown_instance: str = _option(conf, "unknown_instance")
        self._authorship = Authorship(_option(conf, "source_policy"), _option(conf, "agents"), monotonic)

    def on_status(self, event: Event, view: View) -> Iterable[Change]:
        """The status of an instance, with its message and output.

        :raises InvalidEvent: naming the field that is wrong.
        """
        service_type = service_type_of(event)
        data = read_status(event)
        instance_id = instance_id_of(event, data)
        status = self._status(service_type, data.status)
        row = view.get(KIND, instance_id)
        made_by_api = isinstance(row, ServiceTypeInstance) and row.versions[_SPEC].startswith(WRITTEN_HERE)
        published = time_of(event, data)
        when = sortable.NO_TIME if published is None else sortable.digits(*published)
        owned = self._authorship.check_status(event, service_type, row)
        if (row is None or not owned) and self._unknown_instance == "ignore":
            return ()
        if not owned and made_by_api:
            raise NotYet(KIND, instance_id)
        facets: dict[str, dict[str, Any]] = {
            "status": {
                "status": status,
                "status_message": data.message or None,
                "status_updated_at": None if published is None else sortable.utc(*published),
            }
        }
        if self._unknown_instance == "create" and not made_by_api:
            # By every event, not only the first: otherwise it would matter which one came first.
            facets["spec"] = {"service_type": service_type}
            facets["provider"] = {"provider_name": provider_of(event)}
        versions = row.versions if row is not None else _NO_VERSIONS
        version = version_of(event, when, versions[_STATUS])
        if data.output_spec is UNSET:
            return (Upsert(KIND, instance_id, version, facets),)
        output = {"output": {"output_spec": data.output_spec}}
        known, output_known = versions[_STATUS], versions[_OUTPUT]
        output_version = version if output_known == known else version_of(event, when, output_known)
        if output_version == version:
            return (Upsert(KIND, instance_id, version, facets | output),)
        return (Upsert(KIND, instance_id, version, facets), Upsert(KIND, instance_id, output_version, output))

    def on_provider_health(self, event: Event, view: View) -> Iterable[Change]:
        """The state of a provider in one service type, as its environment agent sees it.

        The agent speaks only for its own provider (:mod:`watcher_sync.handlers.dcm.authorship`).

        :raises InvalidEvent: naming the field that is wrong.
        """
        state = _STATES.get(event.type.rpartition(".")[2])
        if state is None:
            raise InvalidEvent(f"type: {event.type[:64]!r} tells no state; expected one of {', '.join(_STATES)}")
        data = event.read(HealthData)
        self._authorship.check_health(event, data.affected_provider)
        fields = {
            "name": data.affected_provider,
            "service_type": data.service_type,
            "state": state,
            "reason": data.reason or None,
            "agent_name": data.agent_name or event.origin or None,
            "updated_at": None if event.time is None else sortable.utc(event.time, "time"),
        }
        when = sortable.NO_TIME if event.time is None else sortable.digits(event.time, "time")
        entity_id = provider_id(data.affected_provider, data.service_type)
        known = view.get("provider", entity_id)
        version = version_of(event, when, known.versions[0] if known is not None else NEVER)
        return (Upsert("provider", entity_id, version, {"state": fields}),)

    def _status(self, service_type: str, word: str) -> str:
        word = word.strip()
        if not word:
            raise InvalidEvent("data.status: empty")
        known = self._services.status(service_type, word) if service_type in self._services else None
        if known is not None:
            return known
        if self._store_unknown:
            return sys.intern(word.upper())
        if service_type not in self._services:
            raise InvalidEvent(
                f"type: {service_type[:64]!r} is no known service type; there are {', '.join(self._services.names())}"
            )
        known_ones = ", ".join(self._services.statuses(service_type))
        raise InvalidEvent(f"data.status: {word[:64]!r} is no status of {service_type}; there are {known_ones}")


def _option(conf: Any, name: str) -> Any:
    if conf is not None:
        return conf[name]
    return next(option.default for option in OPTIONS if option.name == name)
