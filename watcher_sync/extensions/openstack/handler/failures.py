# SPDX-License-Identifier: Apache-2.0
"""Failures that Nova publishes without their instance, as ``compute.exception``.

The exception of a failed rescue, resize or revert has the request of the action, and so have the events with which the
action began. So the exception of an instance's unfinished request is its failure.

The two come in any order. So a host remembers its last failures, and an action that begins reads its own there. The
failure has the version of the exception.

The last part of the facet's version is the creation of the service. An older failure is that of a predecessor with the
same name.

Not guaranteed: the failure of an unknown host. Pure functions, for any thread.

Source: nova/exception_wrapper.py, nova/compute/manager.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from watcher_sync.events import Event
from watcher_sync.extensions.openstack.handler import facets as payload_facets
from watcher_sync.extensions.openstack.handler.facets import Fields
from watcher_sync.extensions.openstack.handler.ordering import event_version
from watcher_sync.extensions.openstack.handler.ownership import FAULT, REQUEST, STATE
from watcher_sync.extensions.openstack.handler.payloads import EXCEPTION, read
from watcher_sync.extensions.openstack.kinds import ComputeNode
from watcher_sync.model.changes import NEVER, Change, Doubtful, Upsert, Version
from watcher_sync.model.kinds import kind_of
from watcher_sync.model.view import View

MAX_FAILURES: Final = 5
"""Failures that a host remembers. The version of the facet is made of theirs and of the creation of the service, and
has at most 200 characters."""

FACET: Final = "failures"

MAX_MESSAGE: Final = 255
"""Characters of a message; Nova's API shows no more of a fault."""

_POSITION: Final = kind_of(ComputeNode).facet_position[FACET]
_ANCHOR: Final = kind_of(ComputeNode).anchor_position

_NO_ERROR: Final = frozenset(
    {"InstanceNotFound", "NotImplementedError", "UnexpectedDeletingTaskStateError", "UnexpectedTaskStateError"}
)
"""Exceptions after which Nova does not write the state error: the driver cannot do it, or another task came between."""


class ActionFailure(msgspec.Struct, frozen=True):
    """What an exception says of an action."""

    request_id: str
    version: Version
    type: str | None
    message: str | None


def failure_of(event: Event) -> ActionFailure | None:
    """The failure that a ``compute.exception`` reports; None if its action did not end in an error, or has no request.

    :raises InvalidEvent: naming the field that is wrong.
    """
    request_id = event.actor.request_id if event.actor is not None else None
    if request_id is None:
        return None
    fault = payload_facets.fault_fields(read(event.data, EXCEPTION))
    kind, message = fault.get("fault_type"), fault.get("fault_message")
    if kind in _NO_ERROR:
        return None
    return ActionFailure(request_id, event_version(event), kind, message[:MAX_MESSAGE] if message else message)


def failed(instance_id: str, failure: ActionFailure) -> tuple[Change, ...]:
    """The changes of the instance whose action failed."""
    facets: dict[str, Fields] = {
        STATE: {"state": "error", "task_state": None},
        FAULT: {"fault_type": failure.type, "fault_message": failure.message},
        REQUEST: payload_facets.NO_REQUEST,
    }
    return (Upsert("instance", instance_id, failure.version, facets), Doubtful("instance", instance_id))


def remembered(view: View, host: str, failure: ActionFailure) -> tuple[Change, ...]:
    """The change of the host that remembers a failure; none if the host is unknown.

    Of two failures of one request the guard takes the later, because a host with the earlier has an older version.
    """
    node = view.get("compute_node", host)
    if not isinstance(node, ComputeNode):
        return ()
    failures: dict[str, Any] = dict(node.failures or {})
    failures[failure.request_id] = {"version": failure.version, "type": failure.type, "message": failure.message}
    fields, version = _memory(failures, _created(node))
    return (Upsert("compute_node", host, version, {FACET: fields}),)


def after_creation(view: View, host: str, created: Version) -> tuple[Fields, Version] | None:
    """The fields of the facet after a service of the host was created, and their version.

    None: the service has been deleted since.
    """
    node = view.get("compute_node", host)
    if not isinstance(node, ComputeNode):
        return _memory({}, created)
    if not node.registered and created < node.versions[_ANCHOR]:
        return None
    created = max(created, _created(node))
    return _memory({r: one for r, one in (node.failures or {}).items() if one["version"] > created}, created)


def _created(node: ComputeNode) -> Version:
    """The version of the creation of its service; NEVER if no event has reported it."""
    parts = node.versions[_POSITION].split("+")
    return Version(parts[-1]) if len(parts) > len(node.failures or {}) else NEVER


def _memory(failures: dict[str, Any], created: Version) -> tuple[Fields, Version]:
    last = sorted(failures.items(), key=lambda item: item[1]["version"])[-MAX_FAILURES:]
    # The newest first: so the version grows with each failure that the host remembers, in any order of arrival.
    versions = [one["version"] for _, one in reversed(last)]
    return {FACET: dict(last) or None}, Version("+".join([*versions, created] if created != NEVER else versions))


def remembered_failure(view: View, hosts: Iterable[str | None], request_id: str) -> ActionFailure | None:
    """The last failure of a request that one of these hosts remembers."""
    nodes = [view.get("compute_node", host) for host in hosts if host]
    found = [node.failures.get(request_id) for node in nodes if isinstance(node, ComputeNode) and node.failures]
    failures = [ActionFailure(request_id, **one) for one in found if one is not None]
    return max(failures, key=lambda failure: failure.version, default=None)
