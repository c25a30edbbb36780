# SPDX-License-Identifier: Apache-2.0
"""A volume driver without storage.

The option ``shelves_state`` names a JSON file: pool -> the figures that the driver reports. A test may write it
while the driver runs. A volume or a snapshot whose metadata has ``fail: <step>`` fails at the step.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from cinder import exception
from cinder.volume import configuration, driver, manager
from oslo_config import cfg

_OPTIONS = [cfg.StrOpt("shelves_state", help="The file with the figures of the pools.")]
cfg.CONF.register_opts(_OPTIONS, group=configuration.SHARED_CONF_GROUP)

# There are no bytes to copy in a migration between backends.
manager.VolumeManager._copy_volume_data = lambda *args, **kwargs: None


class ShelvesDriver(driver.VolumeDriver):
    """Every operation succeeds at once, unless the metadata asks for a failure."""

    VERSION = "1"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values(_OPTIONS)

    def check_for_setup_error(self) -> None:
        """Nothing is needed."""

    def get_volume_stats(self, refresh: bool = False) -> dict[str, Any]:
        pools = json.loads(pathlib.Path(self.configuration.shelves_state).read_text())
        common = {"QoS_support": False, "multiattach": True, "thin_provisioning_support": True}
        return {
            "volume_backend_name": self.configuration.volume_backend_name,
            "vendor_name": "shelves",
            "driver_version": self.VERSION,
            "storage_protocol": "shelves",
            "pools": [{"pool_name": name, **common, **figures} for name, figures in pools.items()],
        }

    def get_pool(self, volume: Any) -> str:
        return str(volume.host).partition("#")[2]

    # Volumes and snapshots

    def create_volume(self, volume: Any) -> None:
        _fail_at(volume, "create")

    def create_volume_from_snapshot(self, volume: Any, snapshot: Any) -> None:
        _fail_at(volume, "create")

    def create_cloned_volume(self, volume: Any, src_vref: Any) -> None:
        _fail_at(volume, "create")

    def delete_volume(self, volume: Any) -> None:
        _fail_at(volume, "delete")

    def extend_volume(self, volume: Any, new_size: int) -> None:
        _fail_at(volume, "extend")

    def create_snapshot(self, snapshot: Any) -> None:
        _fail_at(snapshot, "create")

    def delete_snapshot(self, snapshot: Any) -> None:
        _fail_at(snapshot, "delete")

    def revert_to_snapshot(self, context: Any, volume: Any, snapshot: Any) -> None:
        _fail_at(volume, "revert")

    # Moves: between pools by the driver, between backends by Cinder

    def migrate_volume(self, context: Any, volume: Any, host: dict[str, Any]) -> tuple[bool, Any]:
        return host["host"].partition("#")[0] == volume.host.partition("#")[0], None

    def retype(self, context: Any, volume: Any, new_type: Any, diff: Any, host: dict[str, Any]) -> tuple[bool, Any]:
        return host["host"] == volume.host, None

    # Exports and connections

    def ensure_export(self, context: Any, volume: Any) -> None:
        """There is nothing to export."""

    def create_export(self, context: Any, volume: Any, connector: Any) -> None:
        """There is nothing to export."""

    def remove_export(self, context: Any, volume: Any) -> None:
        """There is nothing to export."""

    def initialize_connection(self, volume: Any, connector: Any, **kwargs: Any) -> dict[str, Any]:
        return {"driver_volume_type": "shelves", "data": {"volume_id": volume.id}}

    def terminate_connection(self, volume: Any, connector: Any, **kwargs: Any) -> None:
        """There is nothing to end."""

    # Management of what exists

    def manage_existing(self, volume: Any, existing_ref: Any) -> None:
        """Any reference exists."""

    def manage_existing_get_size(self, volume: Any, existing_ref: Any) -> int:
        return 3

    def unmanage(self, volume: Any) -> None:
        """There is nothing to leave."""


def _fail_at(thing: Any, step: str) -> None:
    if (thing.metadata or {}).get("fail") == step:
        raise exception.VolumeBackendAPIException(data="the metadata asked for it")
