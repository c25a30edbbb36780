# SPDX-License-Identifier: Apache-2.0
"""The story of two machines: what operators, Nova and the hardware do with them, a step a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.real_ironic.api import Api
from tests.real_ironic.cloud import Cloud

NODE, OTHER = "6f0c2a52-0000-4000-8000-000000000001", "6f0c2a52-0000-4000-8000-000000000002"
BOND = "6f0c2a52-0000-4000-8000-0000000000b1"
PORTS = ("6f0c2a52-0000-4000-8000-0000000000a1", "6f0c2a52-0000-4000-8000-0000000000a2")
VM = "6f0c2a52-0000-4000-8000-0000000000f1"
OTHER_VM = "6f0c2a52-0000-4000-8000-0000000000f2"

_PATH = f"nodes/{NODE}"
_ON, _OFF = "power on", "power off"


def _await_sync(api: Api) -> None:
    """Wait until the power sync has cleared the error of the last action."""
    api.await_node(NODE, last_error=(None,))


def enroll(cloud: Cloud) -> None:
    api = cloud.api()
    more = {"resource_class": "baremetal", "properties": {"cpus": 8, "memory_mb": 16384, "local_gb": 100}}
    api.create("nodes", uuid=NODE, name="node-1", driver="fake-hardware", extra={"rack": "r1"}, **more)
    api.create("nodes", uuid=OTHER, driver="fake-hardware")


def add_ports(cloud: Cloud) -> None:
    api = cloud.api()
    api.create("portgroups", uuid=BOND, node_uuid=NODE, name="bond-1", mode="active-backup")
    api.create("ports", uuid=PORTS[0], node_uuid=NODE, address="52:54:00:00:00:01", physical_network="physnet1")
    api.create("ports", uuid=PORTS[1], node_uuid=NODE, address="52:54:00:00:00:02", physical_network="physnet1")


def change_ports(cloud: Cloud) -> None:
    api = cloud.api()
    api.update(f"portgroups/{BOND}", mode="802.3ad", name="bond-2")
    api.update(f"ports/{PORTS[1]}", portgroup_uuid=BOND, pxe_enabled=False)


def manage(cloud: Cloud) -> None:
    cloud.api().provision(NODE, "manage", "manageable")


def inspect(cloud: Cloud) -> None:
    cloud.api().provision(NODE, "inspect", "manageable")


def fail_cleaning(cloud: Cloud) -> None:
    cloud.fail(NODE, "clean")
    api = cloud.api()
    api.provision(NODE, "provide", "clean failed")
    _await_sync(api)


def recover_from_cleaning(cloud: Cloud) -> None:
    cloud.fail(NODE)
    api = cloud.api()
    api.request("DELETE", f"{_PATH}/maintenance")
    api.provision(NODE, "manage", "manageable")


def provide(cloud: Cloud) -> None:
    cloud.api().provision(NODE, "provide", "available")


def set_traits(cloud: Cloud) -> None:
    api = cloud.api()
    api.request("PUT", f"{_PATH}/traits", {"traits": ["CUSTOM_GPU", "CUSTOM_FAST"]})
    api.request("PUT", f"{_PATH}/traits/CUSTOM_BIG")
    api.request("DELETE", f"{_PATH}/traits/CUSTOM_FAST")


def associate(cloud: Cloud) -> None:
    cloud.api().update(_PATH, instance_uuid=VM)


def dissociate(cloud: Cloud) -> None:
    cloud.api().update(_PATH, instance_uuid=None)


def deploy(cloud: Cloud) -> None:
    associate(cloud)
    cloud.api().provision(NODE, "active", "active")


def power_off(cloud: Cloud) -> None:
    cloud.api().power(NODE, _OFF, _OFF)


def power_on(cloud: Cloud) -> None:
    cloud.api().power(NODE, _ON, _ON)


def reboot(cloud: Cloud) -> None:
    cloud.api().power(NODE, "rebooting", _ON)


def fail_power(cloud: Cloud) -> None:
    cloud.fail(NODE, "set_power_state")
    api = cloud.api()
    api.request("PUT", f"{_PATH}/states/power", {"target": _OFF})
    api.await_node(NODE, power_state=(_ON,))
    _await_sync(api)
    cloud.fail(NODE)


def set_maintenance(cloud: Cloud) -> None:
    cloud.api().request("PUT", f"{_PATH}/maintenance", {"reason": "a fan is broken"})


def unset_maintenance(cloud: Cloud) -> None:
    cloud.api().request("DELETE", f"{_PATH}/maintenance")


def update(cloud: Cloud) -> None:
    api = cloud.api()
    api.update(_PATH, name="node-one", extra={"rack": "r2", "compute_node_id": VM}, owner="p1", lessee="p2")
    api.update(f"nodes/{OTHER}", resource_class="small", name="node-2")


def power_changes_by_itself(cloud: Cloud) -> None:
    cloud.switch(NODE, _OFF)
    cloud.api().await_node(NODE, power_state=(_OFF,))


def power_becomes_unreachable(cloud: Cloud) -> None:
    cloud.fail(NODE, "get_power_state")
    cloud.api().await_node(NODE, fault=("power failure",))


def power_stays_unreachable(cloud: Cloud) -> None:
    unset_maintenance(cloud)
    power_becomes_unreachable(cloud)


def power_becomes_reachable(cloud: Cloud) -> None:
    cloud.fail(NODE)
    cloud.api().await_node(NODE, fault=(None,))


def rescue(cloud: Cloud) -> None:
    cloud.api().provision(NODE, "rescue", "rescue", rescue_password="secret")


def unrescue(cloud: Cloud) -> None:
    cloud.api().provision(NODE, "unrescue", "active")


def undeploy(cloud: Cloud) -> None:
    cloud.api().provision(NODE, "deleted", "available")


def fail_deployment(cloud: Cloud) -> None:
    cloud.fail(NODE, "deploy")
    api = cloud.api()
    api.update(_PATH, instance_uuid=OTHER_VM)
    api.provision(NODE, "active", "deploy failed")
    _await_sync(api)


def recover_from_deployment(cloud: Cloud) -> None:
    cloud.fail(NODE)
    undeploy(cloud)


def clean_by_hand(cloud: Cloud) -> None:
    manage(cloud)
    steps = [{"interface": "vendor", "step": "log_passthrough"}]
    cloud.api().provision(NODE, "clean", "manageable", clean_steps=steps)


def allocate(cloud: Cloud) -> None:
    provide(cloud)
    api = cloud.api()
    allocation = api.create("allocations", resource_class="baremetal", name="allocation-1")
    api.await_node(NODE, instance_uuid=(allocation,))


def deallocate(cloud: Cloud) -> None:
    api = cloud.api()
    api.request("DELETE", "allocations/allocation-1")
    api.await_node(NODE, instance_uuid=(None,))


def remove_a_port(cloud: Cloud) -> None:
    cloud.api().request("DELETE", f"ports/{PORTS[1]}")


def delete(cloud: Cloud) -> None:
    cloud.api().request("DELETE", _PATH)


def enroll_again(cloud: Cloud) -> None:
    api = cloud.api()
    api.create("nodes", uuid=NODE, name="node-1-again", driver="fake-hardware")
    api.create("portgroups", uuid=BOND, node_uuid=NODE, name="bond-3")
    api.create("ports", uuid=PORTS[1], node_uuid=NODE, address="52:54:00:00:00:03", portgroup_uuid=BOND)


def use_the_other_machine(cloud: Cloud) -> None:
    api = cloud.api()
    api.create("ports", uuid=PORTS[0], node_uuid=OTHER, address="52:54:00:00:00:04")
    api.provision(OTHER, "manage", "manageable")
    api.provision(OTHER, "provide", "available")
    api.request("PUT", f"nodes/{OTHER}/traits", {"traits": ["CUSTOM_SMALL"]})
    api.update(f"nodes/{OTHER}", instance_uuid=VM)
    api.provision(OTHER, "active", "active")
    api.power(OTHER, _ON, _ON)
    api.request("PUT", f"nodes/{OTHER}/maintenance", {"reason": "a fan is broken"})


STEPS: Sequence[Callable[[Cloud], None]] = (
    enroll,
    add_ports,
    change_ports,
    manage,
    inspect,
    fail_cleaning,
    recover_from_cleaning,
    provide,
    set_traits,
    associate,
    dissociate,
    deploy,
    power_off,
    power_on,
    reboot,
    fail_power,
    set_maintenance,
    unset_maintenance,
    update,
    power_changes_by_itself,
    power_on,
    power_becomes_unreachable,
    power_stays_unreachable,
    power_becomes_reachable,
    rescue,
    unrescue,
    undeploy,
    fail_deployment,
    recover_from_deployment,
    clean_by_hand,
    allocate,
    deallocate,
    remove_a_port,
    delete,
    enroll_again,
    use_the_other_machine,
)
