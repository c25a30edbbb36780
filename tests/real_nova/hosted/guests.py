# SPDX-License-Identifier: Apache-2.0
"""Nova's fake driver, with guests that survive a restart of their nova-compute and failures on demand.

The metadata of a server controls it:

* ``fail`` names the step that fails, such as ``spawn``, ``rescue``, ``live_migration`` or ``finish_migration``.
* ``wait: spawn`` lets the build wait until Nova was asked to delete the server.

The guests are in a file of the host's state folder, because a host that comes back must find its guests. Nova reads
the power state from them, so each operation sets it.
"""

from __future__ import annotations

import json
import pathlib
import threading
import time
from typing import Any

import nova.conf
from nova import exception, objects
from nova.compute import power_state, task_states
from nova.virt import fake, node

CONF = nova.conf.CONF


class _Guests(dict[str, fake.FakeInstance]):
    """Uuid -> guest, written to a file at each change."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self._path = path
        # Guards the file.
        self._lock = threading.Lock()
        if path.exists():
            for uuid, (name, state) in json.loads(path.read_text()).items():
                super().__setitem__(uuid, fake.FakeInstance(name, state, uuid))

    def save(self) -> None:
        with self._lock:
            written = self._path.with_suffix(".new")
            written.write_text(json.dumps({uuid: (guest.name, guest.state) for uuid, guest in list(self.items())}))
            written.replace(self._path)

    def __setitem__(self, uuid: str, guest: fake.FakeInstance) -> None:
        super().__setitem__(uuid, guest)
        self.save()

    def __delitem__(self, uuid: str) -> None:
        super().__delitem__(uuid)
        self.save()


class GuestsDriver(fake.FakeDriver):
    """A host of 32 CPUs, 64 GiB of memory and 2000 GiB of disk."""

    vcpus = 32
    memory_mb = 65536
    local_gb = 2000

    def __init__(self, virtapi: Any, read_only: bool = False) -> None:
        super().__init__(virtapi, read_only)
        self.instances = _Guests(pathlib.Path(CONF.state_path) / "guests.json")

    # The identity of the host. The fake driver's is new in each process.

    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        resources = super().get_available_resource(nodename)
        if resources:
            resources["uuid"] = node.get_local_node_uuid()
        return resources

    def get_nodenames_by_uuid(self, refresh: bool = False) -> dict[str, str]:
        return {node.get_local_node_uuid(): name for name in self.get_available_nodes()}

    # Power states, which the fake driver leaves as they are

    def pause(self, instance: Any) -> None:
        self._set_power(instance, power_state.PAUSED)

    def unpause(self, instance: Any) -> None:
        self._set_power(instance, power_state.RUNNING)

    def suspend(self, context: Any, instance: Any) -> None:
        self._set_power(instance, power_state.SUSPENDED)

    def resume(self, context: Any, instance: Any, *args: Any, **kwargs: Any) -> None:
        self._set_power(instance, power_state.RUNNING)

    def soft_delete(self, instance: Any) -> None:
        self._set_power(instance, power_state.SHUTDOWN)

    def restore(self, instance: Any) -> None:
        self._set_power(instance, power_state.RUNNING)

    def power_off(self, instance: Any, timeout: int = 0, retry_interval: int = 0) -> None:
        super().power_off(instance, timeout, retry_interval)
        self.instances.save()

    def power_on(self, *args: Any, **kwargs: Any) -> None:
        super().power_on(*args, **kwargs)
        self.instances.save()

    def _set_power(self, instance: Any, state: int) -> None:
        if instance.uuid not in self.instances:
            raise exception.InstanceNotFound(instance_id=instance.uuid)
        self.instances[instance.uuid].state = state
        self.instances.save()

    # Steps that fail on demand

    def spawn(self, context: Any, instance: Any, *args: Any, **kwargs: Any) -> None:
        _fail_at(instance, "spawn")
        while _asks(instance, "wait", "spawn"):
            if objects.Instance.get_by_uuid(context, instance.uuid).task_state == task_states.DELETING:
                break
            time.sleep(0.1)
        super().spawn(context, instance, *args, **kwargs)

    def rescue(self, context: Any, instance: Any, *args: Any, **kwargs: Any) -> None:
        _fail_at(instance, "rescue")
        self._set_power(instance, power_state.RUNNING)

    def finish_migration(self, context: Any, migration: Any, instance: Any, *args: Any, **kwargs: Any) -> None:
        _fail_at(instance, "finish_migration")
        super().finish_migration(context, migration, instance, *args, **kwargs)

    def finish_revert_migration(self, context: Any, instance: Any, *args: Any, **kwargs: Any) -> None:
        _fail_at(instance, "finish_revert_migration")
        super().finish_revert_migration(context, instance, *args, **kwargs)

    # A live migration: the guest leaves the source when the switch is done.

    def live_migration(
        self,
        context: Any,
        instance: Any,
        dest: str,
        post_method: Any,
        recover_method: Any,
        block_migration: bool = False,
        migrate_data: Any = None,
    ) -> None:
        if _asks(instance, "fail", "live_migration"):
            recover_method(context, instance, dest, migrate_data)
        else:
            post_method(context, instance, dest, block_migration, migrate_data)

    def post_live_migration(
        self, context: Any, instance: Any, block_device_info: Any, migrate_data: Any = None
    ) -> None:
        self.destroy(context, instance, network_info=None, block_device_info=block_device_info)

    def post_live_migration_at_source(self, context: Any, instance: Any, network_info: Any) -> None:
        """Nothing is left to do there."""


def _asks(instance: Any, what: str, step: str) -> bool:
    return bool((instance.metadata or {}).get(what) == step)


def _fail_at(instance: Any, step: str) -> None:
    if _asks(instance, "fail", step):
        raise exception.InstanceDeployFailure(reason="the metadata asked for it")
