# SPDX-License-Identifier: Apache-2.0
"""The inventory of racks, which is a JSON file: ``{"r1": {"room": "1", "power": "on", "watts": 3500}}``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import msgspec
from oslo_config import cfg
from watcher_sync_example_plugin.rack import Rack

from watcher_sync.exceptions import ReconcileError
from watcher_sync.model.kinds import Entity
from watcher_sync.reconcile.listing import ListingReconciler


class Row(msgspec.Struct):
    """One rack in the file."""

    room: str
    power: Literal["on", "off"]
    watts: int | None = None


class RackReconciler(ListingReconciler):
    """Compares the racks of the model with those of the inventory."""

    name: ClassVar[str] = "racks"
    lists: ClassVar[Mapping[type[Entity], Sequence[str]]] = {Rack: ("room", "power", "watts")}
    options: ClassVar[list[cfg.Opt]] = [cfg.StrOpt("path", help="The JSON file with the inventory.")]

    def scopes(self) -> Sequence[str]:
        """The inventory, if there is one."""
        return ["inventory"] if self.conf.reconciler_racks.path else []

    def list_live(self, scope: str, deadline: float) -> Iterable[Entity]:
        """All racks of the file."""
        path = Path(self.conf.reconciler_racks.path)
        try:
            rows = msgspec.json.decode(path.read_bytes(), type=dict[str, Row])
        except (OSError, msgspec.DecodeError) as exc:
            raise ReconcileError(f"the inventory {path} cannot be read: {exc}") from exc
        return [Rack(id=name, **msgspec.structs.asdict(row)) for name, row in rows.items()]
