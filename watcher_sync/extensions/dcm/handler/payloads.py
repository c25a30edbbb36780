# SPDX-License-Identifier: Apache-2.0
"""The fields of DCM's events that the model uses, in every form that publishers use.

DCM's contract is a CloudEvent of type ``dcm.status.{service type}`` from ``dcm/providers/{provider}`` under the
NATS subject ``dcm.{service type}``, about the instance in ``data.id``. Publishers deviate from it: some name
themselves ``kubevirt.localhost``, and some omit ``data.id``. Older ones put all fields into one name, as type or as
subject: ``dcm.providers.{provider}.{service type}.instances.{id}.status``. Where each provider has a NATS account, the
NATS subject is ``dcm.providers.{provider}.{service type}``.

The structs are partial: the decoder skips fields that the model does not need. Pure functions, for any thread.
"""

from __future__ import annotations

import datetime
import functools
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.kinds import Text
from watcher_sync.wire.fields import BadEnvelope, is_zero_time, parse_time

Name = Annotated[str, Meta(min_length=1, max_length=255)]


class StatusData(msgspec.Struct, gc=False):
    """The data of a status event."""

    status: Name
    id: Text | None = None
    message: str | None = None
    timestamp: datetime.datetime | None = None
    output_spec: dict[str, Any] | UnsetType | None = UNSET


class _AnyTimestamp(StatusData, gc=False):
    """The same with a timestamp as text: RFC 3339 allows forms that the decoder refuses."""

    timestamp: str | None = None  # type: ignore[assignment]


class HealthData(msgspec.Struct, gc=False):
    """The data of an agent's warning about a provider."""

    service_type: Name
    affected_provider: Name
    reason: str | None = None
    agent_name: Text | None = None


class _CamelCaseHealthData(msgspec.Struct, gc=False, rename="camel"):
    """The same with the names of older agents."""

    service_type: Name
    affected_provider: Name
    reason: str | None = None
    agent_name: Text | None = None


_CAMEL_CASE: Final = frozenset(["serviceType", "affectedProvider"])


class AnswerData(msgspec.Struct, gc=False):
    """The data of an agent's answer to the control plane."""

    resource_id: Name
    agent_name: Text | None = None
    error: Text | None = None
    details: str | None = None
    reason: str | None = None


class Legacy(msgspec.Struct, frozen=True):
    """The parts of the older form of a type or subject."""

    provider: str
    service_type: str
    instance_id: str


def read_status(event: Event) -> StatusData:
    """The data of a status event.

    :raises InvalidEvent: naming the field that is wrong.
    """
    try:
        return event.read(StatusData)
    except InvalidEvent:
        found = _with_any_timestamp(event)
        if found is None:
            raise
        return found


def read_health(event: Event) -> HealthData:
    """The data of an agent's warning, with names in either form.

    :raises InvalidEvent: naming the field that is wrong.
    """
    if _CAMEL_CASE.isdisjoint(event.read(dict[str, Any])):
        found = event.read(HealthData)
    else:
        camel = event.read(_CamelCaseHealthData)
        found = HealthData(camel.service_type, camel.affected_provider, camel.reason, camel.agent_name)
    if "/" in found.service_type:
        raise InvalidEvent("data.service_type: has a slash, which ends the name of the provider in its id")
    return found


def _with_any_timestamp(event: Event) -> StatusData | None:
    """The data, if its timestamp is a time that the decoder does not know: with a leap second."""
    try:
        data = event.read(_AnyTimestamp)
        time = parse_time(data.timestamp, "data.timestamp")
    except (InvalidEvent, BadEnvelope):
        return None
    return StatusData(
        status=data.status, id=data.id, message=data.message, timestamp=time, output_spec=data.output_spec
    )


def service_type_of(event: Event) -> str:
    """The service type that the event is of: by its NATS subject, else by its type, else by its CloudEvents subject.

    :raises InvalidEvent: when none of them has one.
    """
    found = _service_type(event.channel) or _service_type(event.type)
    if event.channel.startswith(_LEGACY_BEGIN):
        found = _place(event.channel)[1] or found
    if found is None:
        legacy = legacy_of(event)
        found = legacy.service_type if legacy is not None else _service_type(event.subject)
    if found is None:
        raise InvalidEvent(f"type: no service type in {event.type[:64]!r}, expected dcm.status.<service type>")
    return found


def instance_id_of(event: Event, data: StatusData) -> str:
    """The id of the instance: ``data.id``, else the subject unless it is ``dcm.*``, else by the older form.

    :raises InvalidEvent: when none of them has one.
    """
    if data.id:
        return data.id
    if event.subject and not event.subject.startswith("dcm."):
        return event.subject
    legacy = legacy_of(event)
    if legacy is None:
        raise InvalidEvent("data.id: missing, and neither the subject nor the type names an instance")
    return legacy.instance_id


def provider_of(event: Event) -> str:
    """The provider that published the event: by its CloudEvents source.

    ``dcm/providers/kubevirt`` and ``kubevirt.localhost`` are both ``kubevirt``; another source is taken unchanged.
    """
    return _provider(event.origin)


def agent_of(event: Event, name: str | None) -> str:
    """The agent that published the event: its name in the data, else the one in its CloudEvents source."""
    return name or agent_name_of(event.origin)


def agent_name_of(source: str) -> str:
    """The name of an agent in its CloudEvents source; other sources stay as they are."""
    return source.lstrip("/").removeprefix(_AGENTS)


def legacy_of(event: Event) -> Legacy | None:
    """The parts of the older form of the subject, else of the type or NATS subject; None where none has it."""
    return _legacy(event.subject) or _legacy(event.type) or _legacy(event.channel)


def place_provider_of(event: Event) -> str | None:
    """The provider in the NATS subject, which the server's permissions guard; None where it names none.

    It is the third word: permissions and wildcards of NATS guard whole words.
    """
    return _place(event.channel)[0] if event.channel.startswith(_LEGACY_BEGIN) else None


def speaker_of(event: Event) -> str | None:
    """The provider in the NATS subject, else the CloudEvents source.

    None: the subject begins like one that names its provider, and has none of the two forms.
    """
    return _place(event.channel)[0] if event.channel.startswith(_LEGACY_BEGIN) else event.origin


def time_of(event: Event, data: StatusData) -> tuple[datetime.datetime, str] | None:
    """The publisher's time, and the field that it is in: ``time`` of the CloudEvent, else ``data.timestamp``.

    The zero value of Go's ``time.Time`` is none.
    """
    if event.time is not None:
        return event.time, "time"
    if data.timestamp is None or is_zero_time(data.timestamp):
        return None
    return data.timestamp, "data.timestamp"


# Names come from others. They are cut by searches of a fixed text, because a pattern with several open ends tries each
# of them against each.

_MAX_LENGTH: Final = 512
"""Characters of a name that has parts. The envelopes allow fewer; a source of a plugin may not check."""

_DCM: Final = "dcm."
_PROVIDERS: Final = "dcm/providers/"
_AGENTS: Final = "dcm/agents/"
_LOCAL: Final = ".localhost"
_LEGACY_BEGIN, _LEGACY_INSTANCES, _LEGACY_END = "dcm.providers.", ".instances.", ".status"


@functools.lru_cache(maxsize=1024)
def _service_type(name: str) -> str | None:
    """``vm`` of ``dcm.vm`` and of ``dcm.status.vm``. There are few names, so a cache saves time."""
    if not name.startswith(_DCM):
        return None
    found = name.removeprefix(_DCM).removeprefix("status.")
    return found if 0 < len(found) <= _MAX_LENGTH and "." not in found and found != "status" else None


@functools.lru_cache(maxsize=1024)
def _provider(origin: str) -> str:
    path = origin.lstrip("/")
    if path.startswith(_PROVIDERS) and (found := path.removeprefix(_PROVIDERS)):
        return found.rstrip("/") or found[0]
    return origin.removesuffix(_LOCAL) or origin


@functools.lru_cache(maxsize=1024)
def _place(channel: str) -> tuple[str | None, str | None]:
    """Provider and service type of a NATS subject that names its provider."""
    provider, _, service_type = channel.removeprefix(_LEGACY_BEGIN).partition(".")
    if channel.startswith(_LEGACY_BEGIN) and provider and service_type and "." not in service_type:
        return provider, service_type
    legacy = _legacy(channel)
    # A provider with a dot would be two words, of which the server guards the first alone.
    return (legacy.provider, legacy.service_type) if legacy and "." not in legacy.provider else (None, None)


def _legacy(name: str) -> Legacy | None:
    if not name.startswith(_LEGACY_BEGIN) or not name.endswith(_LEGACY_END) or len(name) > _MAX_LENGTH:
        return None
    middle = name[len(_LEGACY_BEGIN) : -len(_LEGACY_END)]
    at = middle.find(_LEGACY_INSTANCES)
    while at >= 0:
        provider, _, service_type = middle[:at].rpartition(".")
        instance_id = middle[at + len(_LEGACY_INSTANCES) :]
        if provider and service_type and instance_id:
            return Legacy(provider, service_type, instance_id)
        at = middle.find(_LEGACY_INSTANCES, at + 1)
    return None
