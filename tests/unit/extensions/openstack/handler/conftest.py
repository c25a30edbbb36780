# SPDX-License-Identifier: Apache-2.0
"""Nova's events as Nova makes them, and a player that runs them through dispatch, handler and model."""

from __future__ import annotations

import copy
import datetime
import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Actor, Event
from watcher_sync.extensions.openstack.handler.handler import NovaHandler
from watcher_sync.model.changes import Change, Delete, Outcome, Upsert
from watcher_sync.model.model import Model, Snapshot
from watcher_sync.model.transaction import Transaction
from watcher_sync.testing.kinds import builtin_kinds

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
VM = "178b0921-8f85-4257-88b6-2e743b5a975c"


def wrapped(name: str, version: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
        "nova_object.data": data,
    }


def stamp(seconds: float | None) -> str | None:
    """A payload's time: whole seconds after noon."""
    return None if seconds is None else (NOON + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def flavor(**fields: Any) -> dict[str, Any]:
    data = {
        "flavorid": "f1",
        "name": "m1.small",
        "vcpus": 2,
        "memory_mb": 2048,
        "root_gb": 20,
        "ephemeral_gb": 5,
        "swap": 1025,
        "extra_specs": {"hw:cpu_policy": "shared"},
        "projects": None,
        "rxtx_factor": 1.0,
    }
    return wrapped("FlavorPayload", "1.4", data | fields)


def ip(address: str) -> dict[str, Any]:
    return wrapped("IpPayload", "1.0", {"address": address, "label": "private", "meta": {}, "version": 4})


NAMES = {
    "instance.create.end": ("InstanceCreatePayload", "1.13"),
    "instance.update": ("InstanceUpdatePayload", "2.1"),
    "instance.exists": ("InstanceExistsPayload", "2.1"),
    "instance.rescue.end": ("InstanceActionRescuePayload", "1.4"),
    "instance.rebuild.end": ("InstanceActionRebuildPayload", "1.10"),
    "instance.volume_attach.end": ("InstanceActionVolumePayload", "1.7"),
    "instance.volume_detach.end": ("InstanceActionVolumePayload", "1.7"),
    "instance.volume_swap.end": ("InstanceActionVolumeSwapPayload", "1.9"),
}


class NovaEvents:
    """Makes events as a source would emit them. Times are seconds after a fixed noon."""

    VM = VM

    def __init__(self) -> None:
        self._ids = itertools.count(1)

    def event(
        self, event_type: str, payload: Any, *, sent: float | None, publisher: str, message_id: str | None = None
    ) -> Event:
        return Event(
            id=message_id if message_id is not None else f"m{next(self._ids):06d}",
            type=event_type,
            source="nova",
            origin=publisher,
            time=None if sent is None else NOON + datetime.timedelta(seconds=sent),
            data=payload,
        )

    def instance(
        self,
        event_type: str,
        *,
        at: float | None = 0,
        sent: float | None = None,
        publisher: str = "nova-compute:host1",
        message_id: str | None = None,
        without: Iterable[str] = (),
        **fields: Any,
    ) -> Event:
        """:param at: updated_at; ``sent`` is half a second later by default.

        :param without: fields that this Nova does not send.
        """
        host = fields.get("host", "host1")
        data = {
            "uuid": VM,
            "display_name": "some-server",
            "display_description": "it",
            "host_name": "some-server",
            "host": host,
            "node": host,
            "tenant_id": "p1",
            "user_id": "u1",
            "state": "active",
            "task_state": None,
            "power_state": "running",
            "flavor": flavor(),
            "image_uuid": "155d900f-4e14-4e4c-a73d-069cbf4541e6",
            "metadata": {},
            "key_name": "key",
            "locked": False,
            "locked_reason": None,
            "availability_zone": "nova",
            "ip_addresses": [ip("192.168.1.3")],
            "block_devices": [],
            "created_at": stamp(0),
            "updated_at": stamp(at),
            "launched_at": stamp(0),
            "deleted_at": None,
            "fault": None,
        }
        data = {name: value for name, value in (data | fields).items() if name not in set(without)}
        name, version = NAMES.get(event_type, ("InstanceActionPayload", "1.9"))
        if sent is None:
            sent = (at or 0) + 0.5
        return self.event(
            event_type, wrapped(name, version, data), sent=sent, publisher=publisher, message_id=message_id
        )

    def service(
        self, event_type: str, host: str | None, *, sent: float | None, message_id: str | None = None, **fields: Any
    ) -> Event:
        data = {
            "host": host,
            "binary": "nova-compute",
            "topic": "compute",
            "report_count": 1,
            "disabled": False,
            "disabled_reason": None,
            "forced_down": False,
            "availability_zone": None,
            "last_seen_up": None,
            "version": 70,
            "uuid": "fa69c544-906b-4a6a-a9c6-c1f7a8078c73",
        }
        binary = fields.get("binary", "nova-compute")
        return self.event(
            event_type,
            wrapped("ServiceStatusPayload", "1.1", data | fields),
            sent=sent,
            publisher=f"{binary}:{host}",
            message_id=message_id,
        )

    def aggregate(
        self,
        event_type: str,
        uuid: str,
        *,
        sent: float,
        hosts: list[str] | None,
        zone: str | None = None,
        **fields: Any,
    ) -> Event:
        data = {
            "id": 1,
            "uuid": uuid,
            "name": f"aggregate {uuid}",
            "hosts": hosts,
            "metadata": {} if zone is None else {"availability_zone": zone},
        }
        return self.event(
            event_type, wrapped("AggregatePayload", "1.1", data | fields), sent=sent, publisher="nova-api:ctl"
        )

    def exception(
        self,
        sent: float = 6,
        *,
        publisher: str = "nova-compute:host1",
        request: str | None = "req-1",
        kind: str = "InstanceNotRescuable",
        message: str = "cannot be rescued",
    ) -> Event:
        """A ``compute.exception`` with the request in its context.

        :param kind: class of the exception.
        """
        data = {"exception": kind, "exception_message": message, "module_name": "m", "function_name": "f"}
        payload = wrapped("ExceptionPayload", "1.1", data)
        event = self.event("compute.exception", payload, sent=sent, publisher=publisher)
        return msgspec.structs.replace(event, actor=Actor("u1", "p1", request))

    @staticmethod
    def put(event: Event, path: str, value: Any) -> Event:
        """The event with the field at the path (``payload.`` left out, ``/`` between steps) set."""
        payload = copy.deepcopy(event.data)
        *steps, last = path.split("/")
        place = payload
        for step in steps:
            place = place[int(step)] if isinstance(place, list) else place[step]
        place[last] = value
        return replaced(event, payload)

    @staticmethod
    def drop(event: Event, path: str) -> Event:
        """The event without the field at the path."""
        payload = copy.deepcopy(event.data)
        *steps, last = path.split("/")
        place = payload
        for step in steps:
            place = place[step]
        del place[last]
        return replaced(event, payload)

    @staticmethod
    def as_json(event: Event) -> Event:
        """The same event, its payload not decoded."""
        return replaced(event, json.dumps(event.data).encode())


def replaced(event: Event, data: Any) -> Event:
    return msgspec.structs.replace(event, data=data)


class Empty:
    """A view of an empty model."""

    def get(self, kind: str, entity_id: str) -> Any:
        return None

    def by(self, kind: str, index: str, value: Any) -> Any:
        return ()


DISPATCHER = Dispatcher([("nova", NovaHandler())])


def changes_of(event: Event, view: Any = None) -> list[Change]:
    """What the handler makes of the event; nothing where it does not listen to the type.

    :param view: None: of an empty model.
    """
    entry = DISPATCHER.find(event.type)
    return [] if entry is None or entry.call is None else list(entry.call(event, view or Empty()))


class Player:
    """Runs events through dispatch, handler and model, and stores the outcome of each."""

    def __init__(self) -> None:
        self.model = Model(builtin_kinds())
        self.outcomes: list[Outcome] = []
        self.doubtful: set[tuple[str, str]] = set()
        """(kind, id) of the entities that were marked."""

    def play(self, *events: Event, batch: int = 1) -> Snapshot:
        for start in range(0, len(events), batch):
            transaction = Transaction(self.model)
            for event in events[start : start + batch]:
                self.outcomes.append(transaction.apply(event, changes_of(event, transaction)))
            self.doubtful.update(transaction.doubtful)
            self.model.publish(transaction)
        return self.model.snapshot()


@pytest.fixture(scope="session")
def nova() -> NovaEvents:
    return NovaEvents()


@pytest.fixture
def player() -> Player:
    return Player()


@pytest.fixture(scope="session")
def new_player() -> Callable[[], Player]:
    return Player


@pytest.fixture
def play(player: Player) -> Callable[..., Snapshot]:
    """play(*events) -> the snapshot after them."""
    return player.play


@pytest.fixture(scope="session")
def changes() -> Callable[[Event], list[Change]]:
    return changes_of


@pytest.fixture(scope="session")
def facets() -> Callable[[Event], dict[str, Any]]:
    """The facets of the one upsert that an event yields."""

    def of(event: Event) -> dict[str, Any]:
        (upsert,) = [change for change in changes_of(event) if isinstance(change, Upsert)]
        assert isinstance(upsert, Upsert), upsert
        return {facet: dict(fields) for facet, fields in upsert.facets.items()}

    return of


@pytest.fixture(scope="session")
def version() -> Callable[[Event], str]:
    """The version of the one change that an event yields."""

    def of(event: Event) -> str:
        (change,) = [change for change in changes_of(event) if isinstance(change, (Upsert, Delete))]
        return change.version

    return of
