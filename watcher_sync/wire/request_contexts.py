# SPDX-License-Identifier: Apache-2.0
"""What a notification of oslo.messaging says of its cause: the request context of its envelope, or an initiator.

A value that is no text, or one that is too long or not printable, is none. It is no reason to refuse an event.

Pure functions, for any thread. Source: oslo.context, pycadf, nova/notifications/objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from watcher_sync.events import Actor, Event, TraceContext
from watcher_sync.wire.fields import is_name

_REQUEST_ID: Final = re.compile(r"req-[0-9A-Fa-f-]{36}")

_CONTEXT_FIELDS: Final = ("global_request_id", "request_id", "user_id", "user", "project_id", "tenant", "project")
"""The fields of a request context that an event needs, in all versions of it."""

_NO_ACTOR: Final = (None, None, None)


def members_of(event: Event) -> dict[str, str]:
    """The members of an envelope that tell the request context of an event."""
    actor, trace = event.actor or Actor(None), event.trace or TraceContext()
    context = {"user_id": actor.id, "project_id": actor.project_id, "request_id": actor.request_id}
    return context_members({**context, "global_request_id": trace.global_request_id})


def context_members(context: Mapping[str, Any]) -> dict[str, str]:
    """The members of an envelope that tell its request context, without those that are unfit or not needed.

    :param context: the fields of the request context, in any version of it.
    """
    return {f"_context_{name}": value for name in _CONTEXT_FIELDS if (value := _fit(context.get(name))) is not None}


def actor_of(document: dict[str, Any], payload: dict[str, Any]) -> Actor | None:
    """Who caused a notification; None where it names neither a user nor a request.

    The request context of the envelope says so. A notification without one may have an initiator in its payload: as
    CADF has it, which Keystone publishes, or as Nova's actions have it.
    """
    field = document.get
    found = (
        field("_context_user_id") or field("_context_user"),
        field("_context_project_id") or field("_context_tenant") or field("_context_project"),
        field("_context_request_id"),
    )
    if found == _NO_ACTOR:
        if type(cadf := payload.get("initiator")) is dict:
            found = (cadf.get("user_id") or cadf.get("id"), cadf.get("project_id"), cadf.get("request_id"))
        elif type(data := payload.get("nova_object.data")) is dict:
            get = data.get
            found = (get("action_initiator_user"), get("action_initiator_project"), get("request_id"))
    if found == _NO_ACTOR:
        return None
    actor = Actor(*map(_fit, found))
    return actor if actor.id is not None or actor.request_id is not None else None


def trace_of(document: Mapping[str, Any]) -> TraceContext | None:
    """The trace of the global request id of an envelope's request context; None where it has none."""
    request_id = document.get("_context_global_request_id")
    if type(request_id) is not str or _REQUEST_ID.fullmatch(request_id) is None:
        return None
    return TraceContext(global_request_id=request_id)


def _fit(value: Any) -> str | None:
    """A value of a request context; None if it is no text, or one that is too long or not printable."""
    return value if is_name(value) and value.isprintable() else None
