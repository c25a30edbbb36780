# SPDX-License-Identifier: Apache-2.0
"""The documents of subscriptions and of their deliveries: what a request may have, and what an answer has.

The names of the members are those of ONAP's k8splugin. Its clients expect that an unknown member of a request is
ignored, and that a null member is absent.

No answer has the secret of a subscription. The query of a callback URL may have credentials. It is shown only to
callers who may change the subscription.
"""

from __future__ import annotations

import datetime
from typing import Any, Final

from watcher_sync.api.http import schemas
from watcher_sync.extensions.webhooks.api.instance_status import PAYLOADS
from watcher_sync.extensions.webhooks.rows import (
    ACTIVE,
    DEAD,
    DELIVERED,
    GONE,
    PENDING,
    SUSPENDED,
    DeliveryRow,
    Row,
)
from watcher_sync.extensions.webhooks.webhook_messages import CONTENT_TYPES

STATES: Final = (ACTIVE, SUSPENDED, GONE)
DELIVERY_STATES: Final = (PENDING, DELIVERED, DEAD)

FILTERS: Final = ("kinds", "ids", "fields", "labels")
"""The members that restrict what is delivered."""

MAX_INTERVAL_SECONDS: Final = 86_400

NAME: schemas.Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^(?!\.{1,2}$)(?!.* $)[^\u0000-\u001f\u007f/]*$",
    "description": "Its name, which is unique for the instance. It is a segment of a path, and no space ends it.",
}

_INTERVAL: schemas.Schema = {
    "type": "number",
    "minimum": 0,
    "maximum": MAX_INTERVAL_SECONDS,
    "default": 0,
    "description": "Seconds between two deliveries; the changes of that time are merged.",
}

_URL: schemas.Schema = {
    "type": "string",
    "format": "uri",
    "description": "Where the deliveries are posted: https, at a public address, unless the operator allows more.",
}

_NAMES: schemas.Schema = {"type": "array", "items": schemas.SHORT_TEXT, "minItems": 1, "maxItems": 100}

_FILTERS: dict[str, schemas.Schema] = {
    "kinds": {
        "type": "array",
        "items": schemas.SHORT_TEXT,
        "minItems": 1,
        "maxItems": 10,
        "description": "Deliver resources of these kinds only. By default a VNF instance has its workloads and pods.",
    },
    "ids": _NAMES | {"description": "Deliver the resources with these ids only."},
    "fields": _NAMES | {"description": "Deliver a modification only if it touches one of these fields."},
    "labels": {
        "type": "object",
        "propertyNames": {"maxLength": 317},
        "additionalProperties": {"type": "string", "maxLength": 255},
        "minProperties": 1,
        "maxProperties": 20,
        "description": "Deliver resources with all these labels only.",
    },
}

_METADATA: schemas.Schema = {
    "type": "object",
    "description": "Any object; every delivery repeats it. At most 16 KiB of JSON.",
}

_CHOICES: dict[str, schemas.Schema] = {
    "payload": {
        "enum": list(PAYLOADS),
        "default": "status",
        "description": "status: the status of each resource; full: all of its fields, without secrets.",
    },
    "format": {"enum": list(CONTENT_TYPES), "default": "onap", "description": "The form of a delivery."},
}

REQUEST: schemas.Schema = {
    "type": "object",
    "required": ["name", "callback-url"],
    "properties": {
        "name": NAME,
        "min-notify-interval": _INTERVAL,
        "metadata": _METADATA,
        "callback-url": _URL,
        # Its form is checked elsewhere: the error of a schema would repeat the secret.
        "secret": {
            "type": "string",
            "description": "whsec_ and the base64 text of 24 to 64 bytes, with which deliveries are signed (Standard "
            "Webhooks). In a PUT: without it the secrets stay; an empty text removes them; after a new secret the old "
            "one signs, too, for the time that the operator configured.",
        },
        **_CHOICES,
        **_FILTERS,
    },
}

_ANSWERED: dict[str, schemas.Schema] = {
    "name": NAME,
    "min-notify-interval": _INTERVAL,
    "metadata": _METADATA,
    "callback-url": schemas.STRING
    | {"description": "Without its query for callers who may not change the subscription."},
    **_CHOICES,
    "last-update-time": schemas.TIME,
    "last-notify-time": schemas.nullable(schemas.TIME) | {"description": "null until a delivery was tried."},
    "last-notify-status": {"type": "integer", "description": "The HTTP status of the last attempt; 0: no answer."},
    "state": {"enum": list(STATES)},
    "reason": schemas.STRING | {"description": "Why it is not active."},
    "id": schemas.STRING,
    "instance-id": schemas.STRING,
    "instance-kind": schemas.STRING,
    "project-id": schemas.nullable(schemas.STRING),
    "has-secret": {"type": "boolean", "description": "Whether its deliveries are signed."},
    "sequence": schemas.SEQ | {"description": "The journal seq up to which the last delivery tells."},
    "next-attempt-time": schemas.nullable(schemas.TIME),
    "lag": {
        "type": "number",
        "minimum": 0,
        "description": "Seconds that the oldest undelivered change waits; 0: none.",
    },
}

SUBSCRIPTION: schemas.Schema = {
    "type": "object",
    "required": list(_ANSWERED),
    "properties": {**_ANSWERED, **_FILTERS},
    "additionalProperties": False,
}

_DELIVERED: dict[str, schemas.Schema] = {
    "id": {"type": "integer"},
    "webhook-id": schemas.STRING | {"description": "The header webhook-id, which all attempts have."},
    "purpose": schemas.STRING | {"description": "changes, test or resync."},
    "previous-sequence": schemas.SEQ,
    "sequence": schemas.SEQ,
    "state": {"enum": list(DELIVERY_STATES)},
    "attempts": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "time": schemas.STRING,
                "code": {"type": ["integer", "null"], "description": "The HTTP status; 0: no answer."},
                "detail": schemas.nullable(schemas.STRING),
                "seconds": {"type": ["number", "null"]},
            },
        },
    },
    "next-attempt-time": schemas.nullable(schemas.TIME),
    "created-time": schemas.TIME,
    "ended-time": schemas.nullable(schemas.TIME),
}

DELIVERY: schemas.Schema = {
    "type": "object",
    "required": list(_DELIVERED),
    "properties": _DELIVERED,
    "additionalProperties": False,
}

TEST: schemas.Schema = {
    "type": "object",
    "required": ["webhook-id"],
    "properties": {"webhook-id": schemas.STRING | {"description": "The header webhook-id of the message."}},
}

REPLAY: schemas.Schema = {
    "type": "object",
    "required": ["since"],
    "additionalProperties": False,
    "properties": {"since": schemas.SEQ | {"description": "The changes after this seq are delivered again."}},
}


def without_nulls(document: Any) -> Any:
    """A decoded body without the members that are null; Go encodes an unset pointer so."""
    if not isinstance(document, dict):
        return document
    return {name: value for name, value in document.items() if value is not None}


def document_of(row: Row, now: datetime.datetime, *, with_query: bool) -> dict[str, Any]:
    """The answer for a subscription.

    :param now: the time to which the lag is measured.
    :param with_query: whether the callback URL is shown whole.
    """
    one, progress = row
    behind = progress.behind_since
    return {
        "name": one.name,
        "min-notify-interval": _number(one.min_notify_interval),
        "metadata": one.metadata,
        "callback-url": one.callback_url if with_query else one.callback_url.partition("?")[0],
        "payload": one.payload,
        "format": one.format,
        **{name: one.filter[name] for name in FILTERS if name in one.filter},
        "last-update-time": one.updated_at,
        "last-notify-time": progress.last_notify_time,
        "last-notify-status": progress.last_notify_status,
        "state": one.state,
        "reason": one.reason,
        "id": one.id,
        "instance-id": one.instance_id,
        "instance-kind": one.instance_kind,
        "project-id": one.project_id,
        "has-secret": one.secrets is not None,
        "sequence": progress.sequence,
        "next-attempt-time": progress.next_attempt_at,
        "lag": 0 if behind is None else max(0, round((now - behind).total_seconds(), 3)),
    }


def delivery_document(delivery: DeliveryRow) -> dict[str, Any]:
    """The answer for a delivery."""
    return {
        "id": delivery.id,
        "webhook-id": delivery.webhook_id,
        "purpose": delivery.purpose,
        "previous-sequence": delivery.previous_sequence,
        "sequence": delivery.sequence,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "next-attempt-time": delivery.next_attempt_at,
        "created-time": delivery.created_at,
        "ended-time": delivery.ended_at,
    }


def _number(seconds: float) -> float | int:
    """A whole number without a fraction: a client in Go decodes it into an int."""
    return int(seconds) if seconds == int(seconds) else seconds
