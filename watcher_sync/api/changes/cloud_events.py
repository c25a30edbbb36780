# SPDX-License-Identifier: Apache-2.0
"""``POST /v1/events``: CloudEvents 1.0 over HTTP, with the same dispatch and commit as every other event.

The operation accepts the content modes of the CloudEvents HTTP binding (version 1.0.2, section 3):

* *structured* (``application/cloudevents+json``),
* *batched* (``application/cloudevents-batch+json``),
* *binary*: the attributes in ``ce-`` headers, and data of any JSON media type in the body.

Names of attributes may have any case, and optional attributes may be null.

The API applies the events of one request in their order in one transaction, and answers with the outcome of each. An
event that a handler refuses goes to quarantine. The API refuses the whole request if a document is no CloudEvent, or if
the policy refuses an event. Each dialect has a rule of its own.
"""

from __future__ import annotations

from typing import Any

from watcher_sync.api.changes.events import Events
from watcher_sync.api.edge.feed import Feed
from watcher_sync.api.http import schemas
from watcher_sync.api.http.bodies import Body
from watcher_sync.api.http.operation import JSON, Answer, Call, Rule, operation
from watcher_sync.api.http.problems import bad_request
from watcher_sync.api.http.rules import ADMIN, ADMIN_OR_SERVICE
from watcher_sync.api.http.validation import pointer, require_valid, validator
from watcher_sync.api.service import Service
from watcher_sync.commit.authorisation import API
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.model.changes import Outcome
from watcher_sync.wire.cloud_events import binary_headers, read_binary
from watcher_sync.wire.envelopes import read_cloud_event
from watcher_sync.wire.fields import BadEnvelope, EventDelivery
from watcher_sync.wire.json import MAX_SIZE, BadJson

STRUCTURED = "application/cloudevents+json"
BATCHED = "application/cloudevents-batch+json"

OTHER = "other"
"""The dialect of events that no handler declares, and of those that cannot be decoded."""

_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})?$"

_CLOUD_EVENT: schemas.Schema = {
    "type": "object",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": schemas.SHORT_TEXT,
        "source": schemas.SHORT_TEXT,
        "type": schemas.SHORT_TEXT,
        "subject": schemas.nullable(schemas.SHORT_TEXT | {"minLength": 0}),
        "time": schemas.nullable({"type": "string", "maxLength": 64, "format": "date-time", "pattern": _TIME})
        | {"description": "As RFC 3339 has it. 0001-01-01T00:00:00Z, the zero value of Go's time, is none."},
        "datacontenttype": schemas.nullable(schemas.STRING),
        "data": {},
        "data_base64": schemas.nullable({"type": "string", "pattern": "^[A-Za-z0-9+/]*={0,2}$"}),
    },
    "anyOf": [{"properties": {"data": {"type": "null"}}}, {"properties": {"data_base64": {"type": "null"}}}],
    "description": "Names of attributes may have any case. There is data or data_base64, not both.",
}

_MODES = {
    STRUCTURED: _CLOUD_EVENT,
    BATCHED: {"type": "array", "maxItems": 1000, "items": _CLOUD_EVENT},
}

_BINARY = (JSON, "application/*+json", "text/json", "text/*+json")

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
            body=Body(_MODES, raw=_BINARY, untyped=True, prepare=_in_lower_case),
            responses={200: Answer(_ANSWER, "The outcome of each event")},
            tag="events",
        )(self.create)

    def create(self, call: Call) -> None:
        """Commits the events, then answers with their outcomes."""
        media = (call.request.content_type or "").partition(";")[0].strip().lower()
        if media == BATCHED:
            events = [read_cloud_event(document, source=API) for document in call.body]
        elif media == STRUCTURED:
            events = [read_cloud_event(call.body, source=API)]
        else:
            events = [_binary(call)]
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
        what, default, reason = "of types that no handler declares", ADMIN, "no publisher is known for them"
    else:
        what, default, reason = f"of the handler {dialect}", ADMIN_OR_SERVICE, "a publisher of events is a service"
    return Rule(f"events:create:{dialect}", default, f"Apply CloudEvents {what}.", reason)


def _in_lower_case(document: Any) -> Any:
    """Converts the names of attributes, which may have any case.

    :raises Problem: 400 when two names differ by case only.
    """
    if isinstance(document, list):
        return [_in_lower_case(item) if isinstance(item, dict) else item for item in document]
    if not isinstance(document, dict):
        return document
    lowered = {name.lower(): value for name, value in document.items()}
    if len(lowered) != len(document):
        raise bad_request("body", "", "Two attributes have names that differ by case only")
    return lowered


def _binary(call: Call) -> Event:
    """The event of the headers and the body.

    :raises Problem: 400 when an attribute is missing or wrong, or the body is not JSON.
    """
    headers = binary_headers({name: value for name, value in call.request.headers.items() if "_" not in name})
    if headers is not None and headers.wrong is not None:
        raise bad_request("header", pointer([f"ce-{headers.wrong}"]), "is percent-encoded, and no UTF-8")
    attributes = headers.attributes if headers is not None else {}
    require_valid(attributes, _VALIDATOR, "header", "The ce- headers", prefix="ce-")
    assert headers is not None, "a document without a specversion is not valid"
    body = call.body or b""
    try:
        return read_binary(headers, body, EventDelivery(API, size=len(body)), max_size=MAX_SIZE)
    except BadEnvelope as exc:
        raise bad_request("header", "", str(exc)) from None
    except BadJson as exc:
        raise bad_request("body", "", f"The body is not JSON: {exc}") from None
