# SPDX-License-Identifier: Apache-2.0
"""Status events of DCM's providers become the status of service-type instances.

An event has the whole status of an instance. An empty or missing message clears the old one; a missing output does
not. DELETED is a status: the row stays until its owner deletes it through the API.

The API creates the rows. An event without a row waits for it (``unknown_instance``). The API writes the facets
``spec`` and ``provider``, an event ``status`` and ``output``, so neither overwrites the other.
:mod:`watcher_sync.extensions.dcm.handler.ordering` says which event is newer.

:mod:`watcher_sync.extensions.dcm.handler.authorship` says which source may report on which provider.

For one thread at a time.
"""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from msgspec import UNSET, UnsetType
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent, NotYet
from watcher_sync.extensions.dcm.handler.authorship import BINDING, Authorship
from watcher_sync.extensions.dcm.handler.ordering import answer_version_of, recovery_version_of, version_of
from watcher_sync.extensions.dcm.handler.payloads import (
    AnswerData,
    agent_of,
    instance_id_of,
    place_provider_of,
    provider_of,
    read_health,
    read_status,
    service_type_of,
    time_of,
)
from watcher_sync.extensions.dcm.handler.service_types import ServiceTypes, load_service_types
from watcher_sync.extensions.dcm.kinds import Provider, ServiceTypeInstance, provider_id
from watcher_sync.handlers import sortable
from watcher_sync.handlers.base import Handler
from watcher_sync.model.changes import NEVER, WRITTEN_HERE, Change, Delete, Upsert, Version
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
        advanced=True,
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
        advanced=True,
        help="""
What to do with an event about an instance that does not exist.

Instances are made by ``POST /v1/service_type_instances``, and a provider may be faster than that. With ``create``,
what the API writes later, by PUT, wins over what events said of service type and provider.
""",
    ),
    cfg.StrOpt(
        "source_policy",
        default="bind",
        choices=[
            ("off", "Any source may report on any instance and any provider."),
            ("warn", "What enforce refuses is applied, and the log says so, at most once a minute a source."),
            ("bind", "The first source of a provider is bound to it. Others are refused, unless sources lists them."),
            ("enforce", "Only what the option sources lists is allowed, under the service type of the instance."),
        ],
        help="""
Which source may report on the instances of which provider. What is refused goes to quarantine.

With ``bind``, the first CloudEvents source that reports on an instance of a provider is bound to that provider. The
binding is stored, and ``watcher-sync provider binding list`` shows it. A source may be bound to several providers. A
further source of the provider is refused, unless ``sources`` lists it; then it is bound, too. The agent of an instance
may report on it. ``provider binding delete`` resets a binding.

With ``enforce``, an instance without a provider takes no event: they wait until the API names the provider.

The account in a NATS subject ``dcm.providers.<account>.<service type>`` is taken for the source.

Related options: ``sources``.
""",
    ),
    cfg.DictOpt(
        "sources",
        default={},
        help="""
The sources that ``source_policy = enforce`` allows, and ``bind`` beside the first one of a provider: the name of a
provider as in ``provider_name``, a colon, and its CloudEvents sources, separated by spaces. For example
``kubevirt-sp: kubevirt.localhost dcm/agents/agent-1, acm-sp: dcm/providers/acm``.

An agent that warns about a provider is a source of it. Where each provider has a NATS account, list the account.

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


_ANSWERS: Final = {
    "creation-acknowledged": "PROVISIONING",
    "request-queued": "QUEUED",
    "cancel-acknowledged": "CANCELLED",
    "cancel-rejected": "PENDING_DELETION",
    "error": "FAILED",
    "deletion-acknowledged": None,
}
"""How the type of an agent's answer ends -> the status of the instance; None: it exists no more."""

_FAILURES: Final = frozenset(["request-queued", "error"])
"""Answers that do not show that a provider works."""

_AGENT_STATES: Final = frozenset(["QUEUED", "CANCELLED", "PENDING_DELETION"])
"""Statuses that only agents' answers set."""


class DcmHandler(Handler):
    """The handler of ``dcm``."""

    events: ClassVar[Mapping[str, str | None]] = {
        "dcm.*": "on_status",
        "dcm.status.*": "on_status",
        "dcm.providers.*": "on_status",
        "dcm.agent.health.*": "on_provider_health",
        "dcm.agents.health.*": "on_provider_health",
        "service-type-*": "on_provider_health",
        **{f"dcm.agent.{kind}": "on_answer" for kind in _ANSWERS},
        "dcm.agents.responses": "on_answer",
        "dcm.agent.*": None,
        "dcm.agents.*": None,
        "dcm.request.*": None,
    }
    drivers: ClassVar[Collection[str]] = ("nats_jetstream",)
    # DCM's own consumer subscribes to these subjects, and reads no CloudEvents type.
    channels: ClassVar[Collection[str]] = ("dcm.*",)
    options: ClassVar[list[cfg.Opt]] = OPTIONS

    def scopes(self, origin: str) -> list[EntityScope]:
        """The providers and their bindings. The service type instances are those of the REST API."""
        return [EntityScope(kind="provider"), EntityScope(kind=BINDING)]

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
        self._authorship = Authorship(_option(conf, "source_policy"), _option(conf, "sources"), monotonic)

    def on_status(self, event: Event, view: View) -> Iterable[Change]:
        """The status of an instance, with its message and output.

        :raises InvalidEvent: naming the field that is wrong.
        """
        service_type = service_type_of(event)
        data = read_status(event)
        instance_id = instance_id_of(event, data)
        row = view.get(KIND, instance_id)
        known_row = row if isinstance(row, ServiceTypeInstance) else None
        status = self._status(service_type, data.status, known_row)
        made_by_api = known_row is not None and known_row.versions[_SPEC].startswith(WRITTEN_HERE)
        creates = self._unknown_instance == "create" and not made_by_api
        published = time_of(event, data)
        when = sortable.NO_TIME if published is None else sortable.digits(*published)
        if known_row is not None:
            provider, agent = known_row.provider_name, known_row.agent_name
        else:
            provider, agent = _claimed_provider(event) if creates else None, None
        is_new = self._authorship.check(event, provider, view, agent)
        owned = known_row is None or (provider or agent) is not None or not self._authorship.enforces
        if (known_row is None or not owned) and self._unknown_instance == "ignore":
            return ()
        if not owned and made_by_api:
            raise NotYet(KIND, instance_id)
        facets: dict[str, dict[str, Any]] = {"status": _status_fields(status, data.message, published)}
        if creates:
            # By every event, not only the first: otherwise it would matter which one came first.
            facets["spec"] = {"service_type": service_type}
            facets["provider"] = {"provider_name": _claimed_provider(event)}
        versions = known_row.versions if known_row is not None else _NO_VERSIONS
        changes = _status_changes(event, when, instance_id, facets, data.output_spec, versions)
        if is_new and provider is not None:
            changes = (*changes, self._authorship.binding(event, provider, version_of(event, when, NEVER)))
        return changes

    def on_answer(self, event: Event, view: View) -> Iterable[Change]:
        """The answer of an agent to a request of the control plane.

        Like DCM, it ignores the answer of another agent than the one that the instance has.

        :raises InvalidEvent: naming the field that is wrong.
        """
        kind = event.type.rpartition(".")[2]
        if kind not in _ANSWERS:
            return ()
        data = event.read(AnswerData)
        row = view.get(KIND, data.resource_id)
        agent = agent_of(event, data.agent_name)
        when = sortable.NO_TIME if event.time is None else sortable.digits(event.time, "time")
        if not isinstance(row, ServiceTypeInstance):
            if self._unknown_instance == "ignore":
                return ()
            # It waits for the row, unless that was deleted.
            return (Upsert(KIND, data.resource_id, answer_version_of(event, when, NEVER), {"status": {}}),)
        if row.agent_name not in (None, agent):
            return ()
        self._authorship.check(event, row.provider_name, view, row.agent_name)
        version = answer_version_of(event, when, row.versions[_STATUS])
        status = _ANSWERS[kind]
        if status is None:
            change: Change = Delete(KIND, row.id, version)
        else:
            message = ": ".join(text for text in (data.error, data.details, data.reason) if text)
            published = None if event.time is None else (event.time, "time")
            change = Upsert(KIND, row.id, version, {"status": _status_fields(status, message, published)})
        recovered = () if kind in _FAILURES else self._recoveries(event, when, agent, row.service_type, view)
        return (change, *recovered)

    def on_provider_health(self, event: Event, view: View) -> Iterable[Change]:
        """The state of a provider in one service type, as its environment agent sees it.

        An agent is bound to no provider: it warns about several.

        :raises InvalidEvent: naming the field that is wrong.
        """
        state = _STATES.get(event.type.rpartition(".")[2])
        if state is None:
            raise InvalidEvent(f"type: {event.type[:64]!r} tells no state; expected one of {', '.join(_STATES)}")
        data = read_health(event)
        entity_id = provider_id(data.affected_provider, data.service_type)
        self._authorship.check_state(event, data.affected_provider, entity_id, view)
        fields = {
            "name": data.affected_provider,
            "service_type": data.service_type,
            "state": state,
            "reason": data.reason or None,
            "agent_name": agent_of(event, data.agent_name) or None,
            "updated_at": None if event.time is None else sortable.utc(event.time, "time"),
        }
        when = sortable.NO_TIME if event.time is None else sortable.digits(event.time, "time")
        known = view.get("provider", entity_id)
        version = version_of(event, when, known.versions[0] if known is not None else NEVER)
        return (Upsert("provider", entity_id, version, {"state": fields}),)

    def _recoveries(
        self, event: Event, when: str, agent: str, service_type: str | None, view: View
    ) -> Iterator[Upsert]:
        """An agent's later answer about a service type is the recovery of its provider: there is no other sign of it.

        The source of an answer that may not warn about the provider does not report the recovery either.
        """
        time = event.time
        if time is None:
            return
        for provider in view.by("provider", "agent_name", agent):
            assert isinstance(provider, Provider)
            is_later = provider.updated_at is None or time > provider.updated_at
            is_due = provider.state in ("degraded", "unavailable") and provider.service_type == service_type
            if is_later and is_due and self._authorship.allows_state(event, provider, view):
                fields = {"state": "available", "reason": None, "updated_at": sortable.utc(time, "time")}
                version = recovery_version_of(provider.versions[0], when)
                yield Upsert("provider", provider.id, version, {"state": fields})

    def _status(self, service_type: str, word: str, row: ServiceTypeInstance | None) -> str:
        word = word.strip()
        if not word:
            raise InvalidEvent("data.status: empty")
        row_type = row.service_type if row is not None else None
        name, status = self._services.meaning(service_type, row_type, word)
        if row_type not in (None, service_type, name) and self._authorship.compares_types:
            self._authorship.refuse_type(service_type, row)
        if status is not None:
            return status
        if self._store_unknown and word.upper() not in _AGENT_STATES:
            return sys.intern(word.upper())
        if name is None:
            known = ", ".join(self._services.names())
            raise InvalidEvent(f"type: {service_type[:64]!r} is no known service type; there are {known}")
        known = ", ".join(self._services.statuses(name))
        raise InvalidEvent(f"data.status: {word[:64]!r} is no status of {name}; there are {known}")


def _claimed_provider(event: Event) -> str:
    """The provider of an instance that an event makes."""
    return place_provider_of(event) or provider_of(event)


def _status_fields(status: str, message: str | None, published: tuple[datetime.datetime, str] | None) -> dict[str, Any]:
    updated_at = None if published is None else sortable.utc(*published)
    return {"status": status, "status_message": message or None, "status_updated_at": updated_at}


def _status_changes(
    event: Event,
    when: str,
    instance_id: str,
    facets: dict[str, dict[str, Any]],
    output_spec: dict[str, Any] | UnsetType | None,
    versions: Sequence[Version],
) -> tuple[Change, ...]:
    """The changes of an instance: each facet has an order of its own.

    :param versions: those that its facets have now.
    """
    version = version_of(event, when, versions[_STATUS])
    if output_spec is UNSET:
        return (Upsert(KIND, instance_id, version, facets),)
    output = {"output": {"output_spec": output_spec}}
    known, output_known = versions[_STATUS], versions[_OUTPUT]
    output_version = version if output_known == known else version_of(event, when, output_known)
    if output_version == version:
        return (Upsert(KIND, instance_id, version, facets | output),)
    return (Upsert(KIND, instance_id, version, facets), Upsert(KIND, instance_id, output_version, output))


def _option(conf: Any, name: str) -> Any:
    if conf is not None:
        return conf[name]
    return next(option.default for option in OPTIONS if option.name == name)
