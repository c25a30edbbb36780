# SPDX-License-Identifier: Apache-2.0
"""Notifications as Cinder 29 publishes them, in their envelopes."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable
from typing import Any

from watcher_sync_cinder.handler import CinderHandler
from watcher_sync_cinder.kinds import KINDS

from watcher_sync.testing.playing import Played, play

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
VOLUME, SNAPSHOT, TYPE = (f"00000000-0000-4000-8000-00000000000{digit}" for digit in "123")
BACKEND = "volume-1@fast"
POOL, OTHER_POOL = f"{BACKEND}#fast-a", f"{BACKEND}#fast-b"
API = "volume.controller"

_numbers = itertools.count()


def envelope(event_type: str, at: float, payload: Any, publisher: str, priority: str = "INFO") -> dict[str, Any]:
    """One notification.

    :param at: seconds after noon by the publisher's clock.
    """
    return {
        "message_id": f"m-{next(_numbers)}",
        "publisher_id": publisher,
        "event_type": event_type,
        "priority": priority,
        "payload": payload,
        "timestamp": (NOON + datetime.timedelta(seconds=at)).strftime("%Y-%m-%d %H:%M:%S.%f"),
    }


def volume(
    event: str,
    at: float,
    *,
    status: str = "available",
    publisher: str = f"volume.{BACKEND}",
    metadata: dict[str, str] | None = None,
    attached: Iterable[str] = (),
    reserved: Iterable[str] = (),
    **fields: Any,
) -> dict[str, Any]:
    """``volume.<event>``.

    :param attached: servers; the id of the attachment is that of the server with ``a-`` before it.
    """
    states = [*((one, "attached") for one in attached), *((one, "reserved") for one in reserved)]
    payload = {
        "tenant_id": "project",
        "host": POOL,
        "user_id": "user",
        "availability_zone": "nova",
        "volume_id": VOLUME,
        "volume_type": TYPE,
        "display_name": "data",
        "launched_at": "2026-01-01T12:00:00+00:00",
        "created_at": "2026-01-01T12:00:00+00:00",
        "status": status,
        "snapshot_id": None,
        "size": 1,
        "replication_status": None,
        "metadata": [{"key": key, "value": value} for key, value in (metadata or {}).items()],
        "volume_attachment": [
            {"id": f"a-{one}", "volume_id": VOLUME, "instance_uuid": one, "attach_status": state, "connector": "{}"}
            for one, state in states
        ],
        **fields,
    }
    return envelope(f"volume.{event}", at, payload, publisher)


def snapshot(event: str, at: float, *, status: str = "available", **fields: Any) -> dict[str, Any]:
    """``snapshot.<event>``."""
    payload = {
        "tenant_id": "project",
        "user_id": "user",
        "availability_zone": "nova",
        "volume_id": VOLUME,
        "volume_size": 1,
        "snapshot_id": SNAPSHOT,
        "display_name": "monday",
        "created_at": "2026-01-01T12:00:00+00:00",
        "status": status,
        "deleted": "True" if status == "deleted" else "",
        "metadata": "{'tier': 'gold'}",
        **fields,
    }
    return envelope(f"snapshot.{event}", at, payload, f"snapshot.{BACKEND}")


def group(event: str, at: float, **fields: Any) -> dict[str, Any]:
    """``<kind of group>.delete.end`` and the like. The payload names no volume and no snapshot."""
    payload = {
        "tenant_id": "project",
        "user_id": "user",
        "availability_zone": "nova",
        "name": "databases",
        "created_at": "2026-01-01T12:00:00+00:00",
        "status": "deleted",
        **fields,
    }
    return envelope(event, at, payload, f"group.{BACKEND}")


def volume_type(event: str, at: float, *, error: str | None = None, **fields: Any) -> dict[str, Any]:
    """``volume_type.<event>``."""
    found = {"id": TYPE, "name": "fast", "is_public": True, "extra_specs": {"volume_backend_name": "fast"}, **fields}
    payload = {"volume_types": found}
    if error is not None:
        payload = {"volume_types": None, "name": "fast", "id": None, "error_message": error}  # type: ignore[dict-item]
    priority = "INFO" if error is None else "ERROR"
    return envelope(f"volume_type.{event}", at, payload, "volumeType.controller", priority)


def unscheduled(at: float, *, method: str = "create_volume", state: Any = "error") -> dict[str, Any]:
    """``scheduler.<method>``: it found no pool."""
    asked = {
        "id": VOLUME,
        "host": POOL,
        "display_name": "data",
        "size": 1,
        "project_id": "project",
        "user_id": "user",
        "availability_zone": "nova",
        "volume_type_id": TYPE,
        "snapshot_id": None,
        "metadata": {"tier": "gold"},
        "status": "creating",
        "created_at": "2026-01-01T12:00:00.000000",
    }
    payload = {
        "volume_id": VOLUME,
        "state": state,
        "method": method,
        "reason": "NoValidBackend('No valid backend was found.')",
        "request_spec": {"volume_id": VOLUME, "volume": asked},
    }
    return envelope(f"scheduler.{method}", at, payload, "scheduler.controller", "ERROR")


def pool(at: float, *, pool_id: str = POOL, total: float = 100.0, free: float = 90.0) -> dict[str, Any]:
    """``capacity.pool``."""
    return _capacity("capacity.pool", at, name_to_id=pool_id, total=total, free=free, allocated=5.0, provisioned=10.0)


def backend(at: float) -> dict[str, Any]:
    """``capacity.backend``."""
    return _capacity(
        "capacity.backend", at, name_to_id=BACKEND, total=100.0, free=90.0, allocated=5.0, provisioned=10.0
    )


def _capacity(event_type: str, at: float, **fields: Any) -> dict[str, Any]:
    payload = {"virtual_free": 900.0, "reported_at": "2026-01-01T12:00:00.000000", **fields}
    return envelope(event_type, at, payload, "capacity.controller")


def playing(*events: dict[str, Any], batch_size: int = 500) -> Played:
    """What the events lead to."""
    return play(events, handlers={"cinder": CinderHandler}, kinds=KINDS, batch_size=batch_size)


def only(kind: str, *events: dict[str, Any]) -> dict[str, Any]:
    """The only entity of a kind after these events. :raises ValueError: there is another number of them."""
    (found,) = playing(*events).entities[kind].values()
    return found
