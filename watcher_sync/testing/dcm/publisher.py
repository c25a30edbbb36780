# SPDX-License-Identifier: Apache-2.0
"""Builders for the events of DCM's providers and agents, with all known deviations of publishers.

:func:`status` builds a complete event as the contract defines it. A :class:`Publisher` is one publishing program with
the deviations that were observed in the field; :data:`PUBLISHERS` lists all. A deviation that hides facts declares
it, so that a simulator can compute the truth.

Guarantees: each call builds a new document, and the same arguments build the same document. No threads, no I/O.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

Document = dict[str, Any]
"""A JSON object as Python has it."""

SUBJECT_HEALTH: Final = "dcm.agents.health"
"""The NATS subject of the agents' warnings."""

SUBJECT_RESPONSES: Final = "dcm.agents.responses"
"""The NATS subject of the agents' answers."""

NOON: Final = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)

STATUSES: Final[Mapping[str, tuple[str, ...]]] = {
    "vm": ("PROVISIONING", "RUNNING", "STOPPED", "FAILED", "DELETED", "DELETING", "PAUSED", "STOPPING"),
    "container": ("PENDING", "RUNNING", "SUCCEEDED", "FAILED", "UNKNOWN", "DELETED"),
    "cluster": (
        "PENDING", "PROVISIONING", "PROGRESSING", "ACTIVE", "READY", "DEGRADED", "UNAVAILABLE", "FAILED", "DELETING",
        "DELETED",
    ),
    "storage": ("PROVISIONING", "RUNNING", "FAILED", "DELETING", "DELETED"),
    "network": ("PENDING", "READY", "DELETED"),
    "database": ("PENDING", "RUNNING", "FAILED", "UNKNOWN", "DELETING", "DELETED"),
}  # fmt: skip
"""Service type -> its statuses, as DCM's contract lists them."""

KUBEVIRT_PHASES: Final[Mapping[str, str]] = {
    "Pending": "PROVISIONING",
    "Scheduling": "PROVISIONING",
    "Scheduled": "PROVISIONING",
    "Running": "RUNNING",
    "Succeeded": "STOPPED",
    "Failed": "FAILED",
    "Unknown": "UNKNOWN",
}
"""A raw phase of a KubeVirt virtual machine instance -> the status that it means."""

ACM_STATUSES: Final = ("PENDING", "PROVISIONING", "READY", "FAILED", "DELETING", "DELETED", "UNAVAILABLE")
"""What the provider of clusters says."""


def subject(service_type: str) -> str:
    """The NATS subject of a service type."""
    return f"dcm.{service_type}"


def legacy_name(provider: str, service_type: str, instance_id: str) -> str:
    """The older form, which has everything in one name."""
    return f"dcm.providers.{provider}.{service_type}.instances.{instance_id}.status"


def status(
    instance_id: str = "i-1",
    reported: str = "RUNNING",
    *,
    service_type: str = "vm",
    provider: str = "kubevirt-1",
    event_id: str = "e-1",
    time: datetime.datetime | None = NOON,
    message: str | None = "It runs.",
    output_spec: Document | None = None,
) -> Document:
    """A status event as the contract has it; what is None is left out."""
    data: Document = {"id": instance_id, "status": reported}
    document: Document = {
        "specversion": "1.0",
        "id": event_id,
        "source": f"dcm/providers/{provider}",
        "type": f"dcm.status.{service_type}",
        "subject": instance_id,
        "datacontenttype": "application/json",
        "data": data,
    }
    if message is not None:
        data["message"] = message
    if output_spec is not None:
        data["output_spec"] = output_spec
    if time is not None:
        document["time"] = data["timestamp"] = stamp(time)
    return document


def health(
    state: str = "degraded",
    *,
    provider: str = "kubevirt-1",
    service_type: str = "vm",
    event_id: str = "h-1",
    time: datetime.datetime | None = NOON,
    reason: str = "service provider health check failures exceeded threshold",
    agent: str = "agent-1",
) -> Document:
    """An environment agent's word about its provider: ``degraded``, ``unavailable`` or ``available``.

    The CloudEvents source names the provider, for which the agent speaks.
    """
    document: Document = {
        "specversion": "1.0",
        "id": event_id,
        "source": f"dcm/providers/{provider}",
        "type": f"dcm.agent.health.service-type-{state}",
        "datacontenttype": "application/json",
        "data": {
            "agent_id": agent,
            "agent_name": agent,
            "topic_name": f"dcm.agent.{agent}",
            "service_type": service_type,
            "reason": reason,
            "affected_provider": provider,
        },
    }
    if time is not None:
        document["time"] = stamp(time)
    return document


def answer(
    kind: str,
    resource_id: str = "i-1",
    *,
    agent: str = "agent-1",
    event_id: str = "a-1",
    time: datetime.datetime | None = NOON,
    **data: Any,
) -> Document:
    """An environment agent's answer to the control plane.

    :param kind: how its type ends, such as ``creation-acknowledged``.
    :param data: more of its data, such as ``error``.
    """
    document: Document = {
        "specversion": "1.0",
        "id": event_id,
        "source": f"dcm/agents/{agent}",
        "type": f"dcm.agent.{kind}",
        "datacontenttype": "application/json",
        "data": {"resource_id": resource_id, "agent_name": agent, "topic_name": f"dcm.agent.{agent}", **data},
    }
    if time is not None:
        document["time"] = stamp(time)
    return document


def stamp(time: datetime.datetime) -> str:
    """A time as Go writes it, aware UTC, to the microsecond."""
    return time.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


def body_of(document: Document) -> bytes:
    """The message's body."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def binary(document: Document) -> tuple[dict[str, str], bytes]:
    """The same event in the binary mode: headers and body."""
    headers = {f"ce-{name}": str(value) for name, value in document.items() if name not in ("data", "datacontenttype")}
    headers["content-type"] = "application/json"
    return headers, body_of(document["data"])


class Publisher(NamedTuple):
    """One program that publishes status events, and how it deviates from the contract."""

    name: str
    local_source: bool = False
    """Its source is ``<provider>.localhost``."""
    no_subject: bool = False
    """The CloudEvent has no subject."""
    no_message: bool = False
    """``data`` has no message, so there is none."""
    no_time: bool = False
    """Neither ``time`` nor ``data.timestamp``, so the time is unknown."""
    whole_seconds: bool = False
    """Times have a resolution of one second."""
    only_timestamp: bool = False
    """The time is in ``data.timestamp`` only."""
    raw_phases: bool = False
    """Statuses of virtual machines are KubeVirt's phases."""
    wrong_case: bool = False
    """Attribute names violate the specification: ``specVersion``, ``dataContentType``."""
    lower_case: bool = False
    """Statuses are in lower case."""
    id_in_subject: bool = False
    """``data`` has no id; the CloudEvents subject is the id."""
    legacy_subject: bool = False
    """``data`` has no id; the CloudEvents subject has the older form."""
    legacy_type: bool = False
    """``data`` has no id and the event no subject; the type has the older form."""
    dotted_subject: bool = False
    """The CloudEvents subject is that of NATS, which names no instance."""
    no_content_type: bool = False
    """``datacontenttype`` is left out."""
    message_id: bool = False
    """It sets a Nats-Msg-Id, so that the server drops what it publishes twice."""

    def event(
        self,
        instance_id: str,
        reported: str,
        *,
        service_type: str,
        provider: str,
        event_id: str,
        time: datetime.datetime,
        message: str | None,
        output_spec: Document | None,
    ) -> Document:
        """A status event as this program would publish it; ``reported`` is used unchanged."""
        document = status(
            instance_id,
            reported.lower() if self.lower_case else reported,
            service_type=service_type,
            provider=provider,
            event_id=event_id,
            time=self.time(time),
            message=None if self.no_message else message,
            output_spec=output_spec,
        )
        data = document["data"]
        document["source"] = self.source(provider)
        if self.only_timestamp:
            del document["time"]
        if self.no_subject or self.legacy_type:
            del document["subject"]
        if self.id_in_subject or self.legacy_subject or self.legacy_type:
            del data["id"]
        if self.legacy_subject:
            document["subject"] = legacy_name(provider, service_type, instance_id)
        if self.legacy_type:
            document["type"] = legacy_name(provider, service_type, instance_id)
        if self.dotted_subject:
            document["subject"] = subject(service_type)
        if self.no_content_type:
            del document["datacontenttype"]
        return _wrongly_written(document) if self.wrong_case else document

    def source(self, provider: str) -> str:
        """Its CloudEvents source."""
        return f"{provider}.localhost" if self.local_source else f"dcm/providers/{provider}"

    def time(self, time: datetime.datetime) -> datetime.datetime | None:
        """The time that it tells of an event of that time."""
        if self.no_time:
            return None
        return time.replace(microsecond=0) if self.whole_seconds else time


PUBLISHERS: Final = (
    Publisher("contract", message_id=True),
    Publisher("kubevirt", local_source=True, no_subject=True, no_message=True, whole_seconds=True, raw_phases=True),
    Publisher("acm", no_subject=True, whole_seconds=True),
    Publisher("no time", no_time=True),
    Publisher("timestamp only", only_timestamp=True),
    Publisher("wrong case", wrong_case=True),
    Publisher("lower case", lower_case=True),
    Publisher("id in subject", id_in_subject=True),
    Publisher("older subject", legacy_subject=True),
    Publisher("older type", legacy_type=True),
    Publisher("dotted subject", dotted_subject=True, no_content_type=True),
)
"""The programs that were seen in the field, one habit or one set of habits each."""


def malformed() -> dict[str, tuple[bytes, str]]:
    """What must go to quarantine: label -> (body, a word that the reason has to contain)."""
    good = status("i-bad", event_id="e-bad")

    def without(name: str) -> bytes:
        return body_of({n: v for n, v in good.items() if n != name})

    def data(**fields: Any) -> bytes:
        return body_of({**good, "data": {**good["data"], **fields}})

    text = body_of(good)
    return {
        "no JSON": (b"<status>RUNNING</status>", ""),
        "cut off": (text[:40], ""),
        "invalid UTF-8": (text.replace(b"It runs.", b"\xff\xfe"), ""),
        "NaN": (text.replace(b'"It runs."', b"NaN"), ""),
        "a key twice": (text.replace(b'"status":', b'"status":"FAILED","status":'), "status"),
        "an attribute twice in different case": (text[:-1] + b',"specVersion":"1.0"}', "case"),
        "no specversion": (without("specversion"), ""),
        "another specversion": (body_of({**good, "specversion": "0.3"}), "specversion"),
        "no id": (without("id"), "id"),
        "no source": (without("source"), "source"),
        "no type": (without("type"), "type"),
        "time is no time": (body_of({**good, "time": "noon"}), "time"),
        "no data": (without("data"), "data"),
        "data is a list": (body_of({**good, "data": []}), "data"),
        "no status": (body_of({**good, "data": {"id": "i-bad"}}), "status"),
        "status is a number": (data(status=5), "status"),
        "unknown status": (data(status="LEVITATING"), "data.status"),
        "id is a number": (data(id=7), "id"),
        "message is a list": (data(message=["a"]), "message"),
        "timestamp is no time": (data(timestamp="noon"), "timestamp"),
        "timestamp before 1970": (
            body_of({n: v for n, v in good.items() if n not in ("time", "data")}
                    | {"data": {**good["data"], "timestamp": "1815-12-10T00:00:00Z"}}),
            "data.timestamp",
        ),
        "output_spec is text": (data(output_spec="none"), "output_spec"),
        "an id of 300 characters": (data(id="i" * 300), "id"),
    }  # fmt: skip


def _wrongly_written(document: Document) -> Document:
    names = {"specversion": "specVersion", "datacontenttype": "dataContentType", "id": "ID", "source": "Source"}
    return {names.get(name, name): value for name, value in document.items()}
