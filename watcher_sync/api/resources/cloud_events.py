# SPDX-License-Identifier: Apache-2.0
"""``POST /v1/events``: CloudEvents 1.0 over HTTP, with the same dispatch and commit as every other event.

The operation accepts the content modes of the CloudEvents HTTP binding (version 1.0.2, section 3):

* *structured* (``application/cloudevents+json``),
* *batched* (``application/cloudevents-batch+json``),
* *binary*: the attributes in ``ce-`` headers, percent-encoded, and the data as JSON in the body.

The API applies the events of one request in their order in one transaction, and answers with the outcome of each. An
event that a handler refuses goes to quarantine. The API refuses the whole request if a document is no CloudEvent, or if
the policy refuses an event. Each dialect has a rule of its own.
"""

from __future__ import annotations

import urllib.parse
from typing import Any

from watcher_sync.api.core import schemas
from watcher_sync.api.core.feed import Feed
from watcher_sync.api.core.operation import JSON, Answer, Body, Call, Rule, operation, require_valid, validator
from watcher_sync.api.core.problems import Problem, bad_request
from watcher_sync.api.core.rules import ADMIN, ADMIN_OR_SERVICE
from watcher_sync.api.resources.events import Events
from watcher_sync.api.service import Service
from watcher_sync.commit.authorisation import API
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.model.changes import Outcome
from watcher_sync.wire import json as wire_json
from watcher_sync.wire.envelopes import read_document

STRUCTURED = "application/cloudevents+json"
BATCHED = "application/cloudevents-batch+json"

OTHER = "other"
"""The dialect of events that no handler declares, and of those that cannot be decoded."""

_CLOUD_EVENT: schemas.Schema = {
    "type": "object",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": schemas.SHORT_TEXT,
        "source": schemas.SHORT_TEXT,
        "type": schemas.SHORT_TEXT,
        "subject": schemas.SHORT_TEXT,
        "time": {
            "type": "string",
            "maxLength": 64,
            "format": "date-time",
            "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$",
        },
        "datacontenttype": {"type": "string", "maxLength": 255, "pattern": r"^(application/json|[^;]+\+json)(;.*)?$"},
        "data": {},
        "data_base64": {"type": "string", "pattern": "^[A-Za-z0-9+/]*={0,2}$"},
    },
    "propertyNames": {"maxLength": 255, "pattern": "^([a-z0-9]+|data_base64)$"},
}

_MODES = {
    STRUCTURED: _CLOUD_EVENT,
    BATCHED: {"type": "array", "minItems": 1, "maxItems": 1000, "items": _CLOUD_EVENT},
}

_VALIDATOR = validator(_CLOUD_EVENT)

_ANSWER: schemas.Schema = {
    "type": "object",
    "required": ["events", "seq"],
    "properties": {
        "events": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "outcome"],
                "properties": {"id": schemas.STRING, "outcome": {"enum": [o.value for o in Outcome]}},
            },
        },
        "seq": schemas.SEQ | {"description": "The journal's seq after the commit."},
    },
}


class WritableEvents(Events):
    """``/v1/events``: the journal, and POST for CloudEvents."""

    def __init__(self, service: Service, feed: Feed, writer: DirectWriter, dispatcher: Dispatcher) -> None:
        super().__init__(service, feed)
        self._writer = writer
        self._dispatcher = dispatcher
        self.on_post = operation(
            summary="Apply CloudEvents",
            description=__doc__ or "",
            rule=[_rule(dialect) for dialect in (*dispatcher.dialects, OTHER)],
            body=Body(_MODES, raw=(JSON,)),
            responses={200: Answer(_ANSWER, "The outcome of each event")},
            tag="events",
        )(self.create)

    def create(self, call: Call) -> None:
        """Commits the events, then answers with their outcomes."""
        media = (call.request.content_type or "").partition(";")[0].strip().lower()
        if media == BATCHED:
            documents = call.body
        elif media == STRUCTURED:
            documents = [call.body]
        else:
            documents = [_binary(call)]
        events = [read_document(document, source=API) for document in documents]
        for dialect in dict.fromkeys(self._dialect_of(event) for event in events):
            call.context.require(_rule(dialect).name)
        outcomes, seq = self._writer.run(events, actor=call.context.actor)
        answers = [{"id": e.id, "outcome": o.value} for e, o in zip(events, outcomes, strict=True)]
        call.answer({"events": answers, "seq": seq})

    def _dialect_of(self, event: Event) -> str:
        """The dialect of an event: the handler plugin that it goes to."""
        if event.undecodable is not None:
            return OTHER
        return self._dispatcher.dialect_of(event.type) or OTHER


def _rule(dialect: str) -> Rule:
    """The rule of the policy that the caller needs for the events of a dialect."""
    if dialect == OTHER:
        what, default = "of types that no handler declares", ADMIN
    else:
        what, default = f"of the handler {dialect}", ADMIN_OR_SERVICE
    return Rule(f"events:create:{dialect}", default, f"Apply CloudEvents {what}.", former="events:create")


def _binary(call: Call) -> dict[str, Any]:
    """Converts the headers and the body of the binary mode to the document of the structured mode.

    :raises Problem: 400 when an attribute is missing or wrong, or the body is not JSON.
    """
    document: dict[str, Any] = {
        name[3:]: urllib.parse.unquote(value)
        for name, value in ((n.lower(), v) for n, v in call.request.headers.items())
        if name.startswith("ce-") and "_" not in name
    }
    require_valid(document, _VALIDATOR, "header", "The ce- headers", prefix="ce-")
    try:
        document["data"] = wire_json.decode(call.body) if call.body else None
    except wire_json.BadJson as exc:
        raise bad_request("body", "", f"The body is not JSON: {exc}") from None
    if "data_base64" in document:
        raise Problem(400, "ce-data_base64 is no attribute of the binary mode")
    return document
