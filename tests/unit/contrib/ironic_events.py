# SPDX-License-Identifier: Apache-2.0
"""Builds notifications as Ironic publishes them, and plays them to the plugin."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from watcher_sync_ironic.entities import BaremetalNode, BaremetalPort, BaremetalPortgroup
from watcher_sync_ironic.handler import IronicHandler

from watcher_sync.handlers.base import Handler
from watcher_sync.testing.playing import Played, play

Envelope = dict[str, Any]

KINDS = (BaremetalNode, BaremetalPortgroup, BaremetalPort)
HANDLERS: Mapping[str, type[Handler]] = {"ironic": IronicHandler}

NODE = "5b6d4a1c-0000-4000-8000-000000000001"
API, CONDUCTOR = "ironic-api.ironic-1", "ironic-conductor.ironic-1"

_BEGIN = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
_NAMES = {"node": "Node", "port": "Port", "portgroup": "Portgroup"}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "node": {
        "name": "node-1",
        "driver": "fake-hardware",
        "resource_class": None,
        "conductor_group": "",
        "owner": None,
        "lessee": None,
        "extra": {},
        "properties": {},
        "instance_uuid": None,
        "provision_state": "enroll",
        "target_provision_state": None,
        "provision_updated_at": None,
        "last_error": None,
        "power_state": None,
        "target_power_state": None,
        "maintenance": False,
        "maintenance_reason": None,
        "fault": None,
        "traits": [],
    },
    "port": {
        "node_uuid": NODE,
        "portgroup_uuid": None,
        "address": "52:54:00:00:00:01",
        "physical_network": None,
        "pxe_enabled": True,
    },
    "portgroup": {"node_uuid": NODE, "name": "bond", "address": None, "mode": "active-backup"},
}


def at(seconds: float) -> datetime.datetime:
    """A time of the history."""
    return _BEGIN + datetime.timedelta(seconds=seconds)


def shown(seconds: float | None) -> str | None:
    """A time of an object: Ironic cuts off the part of a second."""
    return None if seconds is None else at(int(seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Ironic:
    """Makes the notifications of one history."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def node(self, action: str, *, saved: float | None, created: float = 0, **more: Any) -> Envelope:
        """A notification of a node: see :meth:`event`."""
        return self.event("node", action, saved=saved, created=created, **more)

    def event(
        self,
        what: str,
        action: str,
        *,
        saved: float | None,
        created: float = 0,
        sent: float | None = None,
        uuid: str = NODE,
        **fields: Any,
    ) -> Envelope:
        """A notification.

        :param action: such as ``create.end``.
        :param saved: seconds at which the object was saved last; None: never since its creation.
        :param sent: seconds at which it was published; None: 0.1 after the object was saved.
        """
        by_api = what != "node" or action.partition(".")[0] in ("create", "update", "delete", "maintenance_set")
        last = created if saved is None else saved
        data = {
            **_DEFAULTS[what],
            "uuid": uuid,
            "created_at": shown(created),
            "updated_at": shown(saved),
            **fields,
        }
        return {
            "message_id": f"{next(self._numbers):08d}-0000-4000-8000-000000000000",
            "publisher_id": API if by_api else CONDUCTOR,
            "event_type": f"baremetal.{what}.{action}",
            "priority": "INFO",
            "payload": {
                "ironic_object.name": f"{_NAMES[what]}Payload",
                "ironic_object.namespace": "ironic",
                "ironic_object.version": "1.17",
                "ironic_object.data": data,
            },
            "timestamp": at(last + 0.1 if sent is None else sent).strftime("%Y-%m-%d %H:%M:%S.%f"),
        }


def played(events: Iterable[Envelope], batch_size: int = 500) -> Played:
    """The model of these notifications in this order."""
    return play(events, handlers=HANDLERS, kinds=KINDS, batch_size=batch_size)
