# SPDX-License-Identifier: Apache-2.0
"""A fake OpenStack over HTTP, a database, and the reconciler between them: no engine, no broker."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clusters import nothing
from tests.sites import Site, parsed
from tests.waiting import deadline
from watcher_sync.assembly.reconcile import make_context
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.batch_dispatch import CommitOptions
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.doubts import Doubts
from watcher_sync.conf import cloud_account
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.extensions.openstack.cloud.client import OpenStackCloud
from watcher_sync.extensions.openstack.conf import reconcile_nova
from watcher_sync.extensions.openstack.handler.handler import NovaHandler
from watcher_sync.extensions.openstack.reconcile.reconciler import SCOPE, NovaReconciler
from watcher_sync.model.view import View
from watcher_sync.reconcile.base import Context, Report
from watcher_sync.storage.drifts import DriftRow, list_drifts
from watcher_sync.testing.openstack import FakeOpenStack

_POWER = {"nostate": "pending"}


class NovaSite(Site):
    """One database, and the cloud that ``[reconcile_nova]`` names."""

    def __init__(self, folder: Path, cloud: FakeOpenStack, *, url: str | None = None, **options: Any) -> None:
        """:param options: of ``[reconcile_nova]``, besides those of the account."""
        self.cloud = cloud
        file = folder / "watcher-sync.conf"
        lines = {"enabled": "true", "region_name": "RegionOne", "timeout": "60", **cloud.options(), **options}
        text = "".join(f"{name} = {value}\n" for name, value in lines.items())
        file.write_text(f"[reconcile_nova]\n{text}")
        super().__init__(folder, url=url, conf=parsed(["--config-file", str(file)]))
        cloud_account.register_auth_opts(self.conf, reconcile_nova.GROUP)
        self.dispatcher = Dispatcher([("nova", NovaHandler())])
        self.doubts = Doubts()
        self.waits: list[float] = []
        """The pauses that a rate limit asked for."""
        self.cloud_account = OpenStackCloud(self.conf, wait=self.waits.append)

    def context(self, view: Callable[[], View] | None = None) -> Context:
        return make_context(self.conf, self.store, self.dispatcher, view or (lambda: self.model), doubts=self.doubts)

    def reconciler(self, wait: Callable[[float], None] = nothing) -> NovaReconciler:
        return NovaReconciler(self.conf, self.context(), cloud=self.cloud_account, wait=wait)

    def reconcile(
        self,
        scope: str = SCOPE,
        wait: Callable[[float], None] = nothing,
        seconds: float = 60,
        reconciler: NovaReconciler | None = None,
        **how: Any,
    ) -> Report:
        return (reconciler or self.reconciler(wait)).run(scope, deadline=time.monotonic() + deadline(seconds), **how)

    def told(self, *events: Event) -> None:
        """Events that an engine commits."""
        CommitCycle(self.store, self.store.load(), self.dispatcher, CommitOptions(doubts=self.doubts)).run(
            Batch(events=events)
        )

    def head(self) -> int:
        return self.store.load().generation

    def drifts(self) -> list[DriftRow]:
        return list_drifts(self.store.database)

    def instances(self) -> dict[str, dict[str, Any]]:
        """id -> the fields that :func:`truth` has, too."""
        return {one.id: {name: getattr(one, name) for name in _FIELDS} for one in self.model.all("instance")}


_FIELDS = (
    "name", "host_name", "project_id", "user_id", "host", "node", "source_host", "state", "task_state", "power_state",
    "locked", "locked_reason", "vcpus", "memory_mb", "disk_gb", "root_gb", "ephemeral_gb", "swap_mb", "flavor_id",
    "flavor_name", "extra_specs", "image_id", "metadata", "key_name", "tags", "server_group", "availability_zone",
    "pinned_zone", "ip_addresses", "created_at", "updated_at", "launched_at", "fault_message",
)  # fmt: skip


def truth(cloud: FakeOpenStack) -> dict[str, dict[str, Any]]:
    """Server -> the fields of its instance, as the cloud has them."""
    inventory = cloud.inventory
    sources = {one.server_id: one.source for one in inventory.migrations.values() if one.status == "finished"}
    groups = {member: group.id for group in inventory.server_groups.values() for member in group.members}
    found = {}
    for server in inventory.servers.values():
        if server.deleted:
            continue
        flavor = server.flavor
        is_error = server.state == "error" and server.fault is not None
        found[server.id] = {
            "name": server.name,
            "host_name": server.hostname,
            "project_id": server.project_id,
            "user_id": server.user_id,
            "host": server.host,
            "node": server.node,
            "source_host": sources.get(server.id) if server.state == "resized" else None,
            "state": "soft-deleted" if server.state == "soft-delete" else server.state,
            "task_state": server.task_state,
            "power_state": _POWER.get(server.power_state, server.power_state),
            "locked": server.locked,
            "locked_reason": server.locked_reason,
            "vcpus": flavor.vcpus,
            "memory_mb": flavor.memory_mb,
            "disk_gb": (flavor.root_gb if server.image_id else 0)
            + flavor.ephemeral_gb
            + (flavor.swap_mb + 1023) // 1024,
            "root_gb": flavor.root_gb,
            "ephemeral_gb": flavor.ephemeral_gb,
            "swap_mb": flavor.swap_mb,
            "flavor_id": flavor.id,
            "flavor_name": flavor.name,
            "extra_specs": dict(flavor.extra_specs),
            "image_id": server.image_id,
            "metadata": dict(server.metadata),
            "key_name": server.key_name,
            "tags": sorted(server.tags),
            "server_group": groups.get(server.id),
            "availability_zone": server.availability_zone if server.host is None else inventory.zone_of(server.host),
            "pinned_zone": server.pinned_availability_zone,
            "ip_addresses": list(server.addresses),
            "created_at": _second(server.created_at),
            "updated_at": _second(server.updated_at or server.created_at),
            "launched_at": server.launched_at,
            "fault_message": server.fault.message if is_error and server.fault is not None else None,
        }
    return found


def _second(time_: datetime.datetime) -> datetime.datetime:
    return time_.replace(microsecond=0)
