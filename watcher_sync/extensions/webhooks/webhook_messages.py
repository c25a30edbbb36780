# SPDX-License-Identifier: Apache-2.0
"""The bodies of messages to callbacks: ONAP's, and CloudEvents 1.0 in structured and in batched mode.

ONAP's members come first; ``sequence``, ``previous-sequence`` and ``time`` are ours. A CloudEvent has the ONAP body as
its data. A batch has a CloudEvent for each resource, with the message's id and a number as its id.

Pure functions, for any thread.

Source: ONAP's k8splugin (status subscriptions), CloudEvents 1.0.2 with its JSON format.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec

JSON: Final = "application/json"
CLOUD_EVENT: Final = "application/cloudevents+json"
CLOUD_EVENTS: Final = "application/cloudevents-batch+json"

CONTENT_TYPES: Final[Mapping[str, str]] = {"onap": JSON, "cloudevents": CLOUD_EVENT, "cloudevents-batch": CLOUD_EVENTS}
"""The format of a subscription -> the media type of its messages."""

_TYPE: Final = "watcher_sync.instance.status"
_LISTS: Final = ("created", "deleted", "modified")

_encode = msgspec.json.Encoder().encode

Resources = Mapping[str, list[dict[str, Any]]]
"""created, deleted and modified."""

NO_RESOURCES: Final[Resources] = {"created": [], "deleted": [], "modified": []}


class Subscriber(Protocol):
    """What a message says of its subscription."""

    @property
    def instance_id(self) -> str:
        """The id of its instance."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def metadata(self) -> dict[str, Any]:
        """What every message repeats."""

    @property
    def format(self) -> str:
        """One of :data:`CONTENT_TYPES`."""


class MessageHead(msgspec.Struct, frozen=True, kw_only=True):
    """What a message says beside the resources."""

    webhook_id: str
    sequence: int
    previous_sequence: int
    time: datetime.datetime
    more: Mapping[str, Any] = {}
    """Further members of the body, such as ``resync``. In a batch they make a notice of their own."""


def content_type(subscription: Subscriber) -> str:
    """The media type of a subscription's messages."""
    return CONTENT_TYPES[subscription.format]


def encode(subscription: Subscriber, resources: Resources, head: MessageHead, max_bytes: int) -> bytes:
    """Encode a message in the subscription's format.

    :param max_bytes: a larger body is encoded without the status of its resources, and with ``truncated``. If that is
        too large as well, the body has no resources, but ``resources-omitted`` with the path that has them.
    """
    body = _encode(_document(subscription, resources, head))
    if len(body) <= max_bytes:
        return body
    short = {name: [_without_status(each) for each in resources[name]] for name in _LISTS}
    head = msgspec.structs.replace(head, more={**head.more, "truncated": True})
    body = _encode(_document(subscription, short, head))
    if len(body) <= max_bytes:
        return body
    omitted = {"resources-omitted": f"{_path(subscription)}/status"}
    head = msgspec.structs.replace(head, more={**head.more, **omitted})
    return _encode(_document(subscription, NO_RESOURCES, head))


def _document(subscription: Subscriber, resources: Resources, head: MessageHead) -> Any:
    if subscription.format == "cloudevents-batch":
        return _batch(subscription, resources, head)
    document = {
        "instance-id": subscription.instance_id,
        "subscription-name": subscription.name,
        "metadata": subscription.metadata,
        "resource-changes": {name: resources[name] for name in _LISTS},
        "sequence": head.sequence,
        "previous-sequence": head.previous_sequence,
        "time": head.time,
        **head.more,
    }
    if subscription.format == "cloudevents":
        return _event(subscription, head, head.webhook_id, f"{_TYPE}.changed", subscription.name, document)
    return document


def _batch(subscription: Subscriber, resources: Resources, head: MessageHead) -> list[dict[str, Any]]:
    events = [
        _event(subscription, head, f"{head.webhook_id}/{number}", f"{_TYPE}.{name}", str(each.get("id", "")), each)
        for number, (name, each) in enumerate((name, each) for name in _LISTS for each in resources[name])
    ]
    if not events or head.more:
        more = {"instance-id": subscription.instance_id, **head.more}
        event_id = f"{head.webhook_id}/{len(events)}"
        events.append(_event(subscription, head, event_id, f"{_TYPE}.notice", subscription.name, more))
    return events


def _event(
    subscription: Subscriber, head: MessageHead, event_id: str, event_type: str, subject: str, data: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": event_id,
        "source": _path(subscription),
        "type": event_type,
        "subject": subject,
        "time": head.time,
        "datacontenttype": JSON,
        "sequence": str(head.sequence),
        "previoussequence": str(head.previous_sequence),
        "subscription": subscription.name,
        "data": data,
    }


def _path(subscription: Subscriber) -> str:
    """The path of the instance in the API, as a URI reference."""
    return f"/v1/instance/{quote(subscription.instance_id, safe='')}"


def _without_status(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "status"}
