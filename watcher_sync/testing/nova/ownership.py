# SPDX-License-Identifier: Apache-2.0
"""A table of what each instance event tells for sure: event type -> facets of the instance.

Nova publishes an event after a write, so its payload shows the row as written. An event that saves nothing shows a copy
that was read earlier. Such an event tells only what its action itself found out.

The facets are:

* ``state``: state and task_state, and with them ``power``: power_state
* ``placement``: host, node, availability zone
* ``source``: the host that a resized instance left
* ``addresses``: ip_addresses
* ``flavor``, ``lock``, ``tags``
* ``attributes``: all others

The first event of an instance reports all but the source and the tags.

The simulator has this table apart from the handler's, because the ledger must not follow the handler's mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ACTION = "state attributes"
_MOVED = "state placement attributes flavor addresses"
FIRST: Final = f"{_MOVED} lock"
"""What the first event of an instance tells."""

OWNED: Final[dict[str, str]] = {
    **{
        f"instance.{action}.end": _ACTION
        for action in (
            "pause", "unpause", "power_off", "power_on", "reboot", "resume", "suspend", "soft_delete", "restore",
            "rescue", "unrescue", "shelve",
        )
    },
    **{f"instance.{action}.end": _MOVED for action in ("unshelve", "resize_finish")},
    "instance.create.end": f"{_MOVED} tags",
    "instance.update": f"{_MOVED} tags",
    "instance.lock": "lock",
    "instance.unlock": "lock",
    "instance.rebuild.end": "state placement attributes addresses",
    "instance.shelve_offload.end": "state placement",
    # The source saved the destination, which has not finished.
    "instance.resize.end": "placement source",
    "instance.resize_finish.start": "placement",
    "instance.resize_confirm.end": f"{_ACTION} source",
    "instance.resize_revert.end": f"{_MOVED} source",
    # The destination saved, then set up the network, then published what it had saved.
    "instance.live_migration_post_dest.end": "placement addresses",
    "instance.live_migration_rollback.end": "state addresses",
    "instance.live_migration_abort.end": "state",
    "instance.live_migration_abort.end of a running one": "",
    "instance.delete.end": "state",
    "instance.interface_attach.end": "addresses",
    "instance.interface_detach.end": "addresses",
    # Nothing was saved.
    "instance.shutdown.end": "",
    "instance.live_migration_force_complete.end": "",
    "instance.exists": "",
    "instance.update of tags": "tags",
    "instance.volume_attach.end": "",
    "instance.volume_detach.end": "",
    "instance.volume_swap.end": "",
    # A failed build frees its host; another failure does not tell where the instance is.
    "instance.create.error": "state placement attributes flavor",
    "instance.rebuild.error": "state",
    "instance.reboot.error": "state",
    "instance.resize.error": "state",
    "instance.volume_attach.error": "",
    "instance.volume_swap.error": "",
    "instance.interface_attach.error": "",
}  # fmt: skip
"""Event type -> facets that it tells of a known instance."""

FACETS: Final = {
    **dict.fromkeys(("state", "task_state"), "state"),
    "power_state": "power",
    **dict.fromkeys(("host", "node", "availability_zone"), "placement"),
    **dict.fromkeys(("locked", "locked_reason"), "lock"),
    **dict.fromkeys(
        (
            "vcpus",
            "memory_mb",
            "root_gb",
            "ephemeral_gb",
            "swap_mb",
            "flavor_id",
            "flavor_name",
            "extra_specs",
            "disk_gb",
        ),
        "flavor",
    ),
    "ip_addresses": "addresses",
}
"""Field of the model -> facet; a field that is not here is an attribute."""

SIGNS_OF_LIFE: Final = ("instance.", "compute.exception", "metrics.update", "service.create", "volume.usage")
"""What a compute publishes itself begins with one of these; instance.update comes from the conductor's machine."""


def placed_by(event_type: str, record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The placement that an event tells; None: none, as its host may be the old one in a migration or a failure."""
    if record["task_state"] == "migrating" or (event_type.endswith(".error") and record["host"] is not None):
        return None
    if event_type == "instance.update" and record["state"] == "shelved_offloaded" and record["task_state"] is None:
        # Nova writes the state first and the host then.
        return {**record, "host": None, "node": None, "availability_zone": None}
    return record


def recovered(record: Mapping[str, Any]) -> bool:
    """Whether an event with the state shows that an earlier fault is over."""
    return record["task_state"] is None and record["state"] not in ("error", "building", "deleted")
