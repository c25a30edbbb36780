# SPDX-License-Identifier: Apache-2.0
"""Which facets each event type owns, and why; and which compute published an event.

Nova publishes the object that the sender has in memory. So a payload has fields that its sender saved, and copies that
may be old. An event *owns* the facets that its sender saved just before, and writes them. The other facets are
copies: an event writes a copy only over an older copy, and never over what an owner wrote.

The dispatch dict of the handler and the table in the documentation follow from :data:`INSTANCE_EVENTS`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

import msgspec

from watcher_sync.events import Event
from watcher_sync.handlers import sortable
from watcher_sync.model.changes import Change, Seen

STATE: Final = "state"
POWER: Final = "power"
PLACEMENT: Final = "placement"
DETAILS: Final = "details"
FLAVOR: Final = "flavor"
NETWORK: Final = "network"
LOCK: Final = "lock"
TAGS: Final = "tags"
RESIZE: Final = "resize"
PIN: Final = "pin"
FAULT: Final = "fault"
REQUEST: Final = "request"

PAYLOAD_FACETS: Final = (STATE, POWER, PLACEMENT, DETAILS, FLAVOR, NETWORK, LOCK, TAGS)
"""The facets that every instance payload has, saved or copied; TAGS only the payloads of events that own them."""


class Ownership(msgspec.Struct, frozen=True):
    """What one event type owns."""

    facets: tuple[str, ...]
    reason: str
    method: str = "on_instance"
    """The handler's method."""

    @property
    def owned(self) -> frozenset[str]:
        """The facets of :data:`PAYLOAD_FACETS` among its own. Who saves the state saves the power with it."""
        power = (POWER,) if STATE in self.facets else ()
        return frozenset(PAYLOAD_FACETS).intersection((*self.facets, *power))


def _action(reason: str) -> Ownership:
    """An action that changes the state and leaves the server where it is."""
    return Ownership((STATE, DETAILS), reason)


def _copied(reason: str) -> Ownership:
    return Ownership((), reason)


def _failed() -> Ownership:
    return Ownership((FAULT,), "It saves nothing; the fault is new.", method="on_instance_error")


_MOVED: Final = (STATE, PLACEMENT, DETAILS, FLAVOR, NETWORK)

INSTANCE_EVENTS: Final[Mapping[str, Ownership]] = {
    # Building
    "instance.create.end": Ownership(
        (*_MOVED, TAGS), "The compute saved all of it; a lock of the meantime is known to the API only."
    ),
    "instance.create.error": Ownership(
        (STATE, PLACEMENT, DETAILS, FLAVOR, FAULT),
        "The clean-up saved host null: the server is on no host. Another host proves nothing.",
        method="on_instance_error",
    ),
    # What a conductor or the API saved
    "instance.update": Ownership(
        (*_MOVED, TAGS),
        "Published at each save, from the row as the database has it.",
        method="on_instance_update",
    ),
    "instance.lock": Ownership((LOCK,), "The API saved the lock and nothing else."),
    "instance.unlock": Ownership((LOCK,), "The API saved the lock and nothing else."),
    # Actions on one host
    "instance.pause.end": _action("The compute saved the new state."),
    "instance.unpause.end": _action("The compute saved the new state."),
    "instance.suspend.end": _action("The compute saved the new state."),
    "instance.resume.end": _action("The compute saved the new state."),
    "instance.power_off.end": _action("The compute saved the new state; in an evacuation it still has the dead host."),
    "instance.power_on.end": _action("The compute saved the new state."),
    "instance.reboot.end": _action("The compute saved the new state."),
    "instance.rescue.start": Ownership(
        (REQUEST,), "It saves nothing; the exception of this request is its failure.", method="on_instance_started"
    ),
    "instance.rescue.end": Ownership((STATE, DETAILS, REQUEST), "The compute saved the new state."),
    "instance.unrescue.end": _action("The compute saved the new state."),
    "instance.soft_delete.end": _action("The compute saved the new state; the server still uses its host."),
    "instance.restore.end": _action("The compute saved the new state."),
    "instance.shelve.end": _action("The compute saved the new state; the server still uses its host."),
    # Moves
    "instance.rebuild.end": Ownership(
        (STATE, PLACEMENT, DETAILS, NETWORK),
        "In an evacuation it has the dead host: the publisher's host is the placement.",
        method="on_instance_rebuilt",
    ),
    "instance.shelve_offload.end": Ownership((STATE, PLACEMENT), "The compute saved host null."),
    "instance.unshelve.end": Ownership(_MOVED, "The new host saved the state and itself as the host."),
    "instance.resize.end": Ownership(
        (PLACEMENT, RESIZE, REQUEST),
        "The source saved the destination, and keeps its allocation; in another cell it has its own host.",
        method="on_instance_resized",
    ),
    "instance.resize_finish.start": Ownership(
        (PLACEMENT, REQUEST),
        "Nothing else tells the destination if the resize fails there; Nova then takes the flavor back.",
        method="on_instance_resize_finishing",
    ),
    "instance.resize_finish.end": Ownership((*_MOVED, REQUEST), "The destination saved state, host and flavor."),
    "instance.resize_confirm.end": Ownership(
        (STATE, DETAILS, RESIZE), "The source saved the state and freed its allocation."
    ),
    "instance.resize_revert.start": Ownership(
        (REQUEST,), "It saves nothing; the exception of this request is its failure.", method="on_instance_started"
    ),
    "instance.resize_revert.end": Ownership(
        (*_MOVED, RESIZE, REQUEST), "The source saved itself as the host, and the old flavor."
    ),
    "instance.live_migration_post_dest.end": Ownership(
        (PLACEMENT, NETWORK), "The destination saved itself as the host before; the rest may have changed since."
    ),
    "instance.live_migration_rollback.end": Ownership(
        (STATE, NETWORK), "The source saved the state; the server never left it."
    ),
    "instance.live_migration_abort.end": Ownership(
        (STATE,),
        "The source saved the state of a migration in the queue; that of a running one is a copy.",
        method="on_instance_migration_aborted",
    ),
    # Deletion
    "instance.delete.end": Ownership(
        (STATE,),
        "Final with the state deleted or a deleted_at; Nova sends it after a deletion that failed, too.",
        method="on_instance_deleted",
    ),
    "instance.shutdown.end": _copied("A step of a deletion or a clean-up, which saves nothing."),
    # Copies
    "instance.exists": Ownership(
        (REQUEST,),
        "An audit or the start of a move, which saves nothing; a revert has begun on its destination.",
        method="on_instance_exists",
    ),
    "instance.live_migration_force_complete.end": _copied(
        "Its sender only asks the hypervisor; the copy may be older than the switch."
    ),
    "instance.volume_attach.end": _copied("The object was read before the volume was attached."),
    "instance.volume_detach.end": _copied("The object was read before the volume was detached."),
    "instance.volume_swap.end": _copied("The object was read before the volume was copied."),
    "instance.interface_attach.end": Ownership((NETWORK,), "Only the addresses are new."),
    "instance.interface_detach.end": Ownership((NETWORK,), "Only the addresses are new."),
    "instance.volume_attach.error": _failed(),
    "instance.volume_detach.error": _failed(),
    "instance.volume_swap.error": _failed(),
    "instance.interface_attach.error": _failed(),
    "instance.interface_detach.error": _failed(),
}
"""Event type -> what it owns."""

ERRORS: Final = "instance.*.error"
OTHER_ERROR: Final = Ownership(
    (STATE, FAULT), "The compute saved the state; where the server is now is open.", method="on_instance_error"
)
"""What an error event owns that is not in the table."""

OWNED: Final[Mapping[str, frozenset[str]]] = {name: event.owned for name, event in INSTANCE_EVENTS.items()}
"""Event type -> the facets that it owns as the payload has them."""

COMPUTE_TASK_ERRORS: Final = (
    "compute_task.build_instances.error",
    "compute_task.migrate_server.error",
    "compute_task.rebuild_server.error",
)
"""The conductor gave up: state, task_state and fault of a server."""

PUBLISHED_BY_OTHERS: Final = frozenset(
    {"instance.update", "instance.lock", "instance.unlock", "instance.evacuate", "instance.rebuild_scheduled"}
)
"""Instance events with a compute as the publisher that an API or a conductor may have sent in its name."""

SIGNS_OF_LIFE: Final = ("compute.exception", "instance.*", "libvirt.connect.error", "metrics.update", "volume.usage")
"""What else a compute publishes itself: ignored and counted by type, but for the sign of life.

``service.create`` is one, too: a compute makes its service when it starts.
"""

IGNORED: Final = (
    "aggregate.*",
    "compute_task.*",
    "flavor.*",
    "instance.evacuate",
    "instance.rebuild_scheduled",
    "keypair.*",
    "scheduler.select_destinations.*",
    "server_group.*",
    "service.*",
)
"""What APIs, conductors and schedulers publish, in their own name or in that of a compute: ignored and counted."""


def dispatch_table() -> dict[str, str]:
    """Event type or pattern of instances -> name of the handler's method."""
    table = {event_type: ownership.method for event_type, ownership in INSTANCE_EVENTS.items()}
    return {**table, ERRORS: OTHER_ERROR.method, **dict.fromkeys(COMPUTE_TASK_ERRORS, "on_compute_task_error")}


API: Final = "nova-api:"
_COMPUTE: Final = "nova-compute:"


def publishing_host(event: Event) -> str | None:
    """The host of the compute that published the event, or None."""
    origin = event.origin
    if not origin.startswith(_COMPUTE) or not 0 < len(host := origin[len(_COMPUTE) :]) <= 255:
        return None
    return sys.intern(host)


def with_seen(event: Event, *changes: Change) -> tuple[Change, ...]:
    """The changes, and the sign of life of the compute that published the event itself."""
    time = event.time
    if time is None or event.type in PUBLISHED_BY_OTHERS or (host := publishing_host(event)) is None:
        return changes
    if time.tzinfo is not sortable.UTC:
        time = sortable.utc(time, "timestamp")
    return (*changes, Seen("compute_node", host, time))
