# SPDX-License-Identifier: Apache-2.0
"""What Ironic's API answers, in the words of the model. It is written apart from the reconciler."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from tests.real_ironic.api import Api

Truth = dict[str, dict[str, dict[str, Any]]]
"""Kind -> id -> fields."""

_SAME = {
    "nodes": (
        "name driver resource_class conductor_group owner lessee extra properties "
        "last_error power_state target_power_state maintenance maintenance_reason fault"
    ),
    "ports": "address physical_network pxe_enabled",
    "portgroups": "name address mode",
}
_RENAMED = {
    "nodes": {
        "instance_id": "instance_uuid",
        "state": "provision_state",
        "target_state": "target_provision_state",
    },
    "ports": {"node_id": "node_uuid", "portgroup_id": "portgroup_uuid"},
    "portgroups": {"node_id": "node_uuid"},
}
_TIMES = {"created_at": "created_at", "provisioned_at": "provision_updated_at"}
_KINDS = {"nodes": "baremetal_node", "ports": "baremetal_port", "portgroups": "baremetal_portgroup"}

KINDS = tuple(_KINDS.values())


def read_truth(api: Api) -> Truth:
    """What the API lists now."""
    return {
        kind: {
            each["uuid"]: _fields(collection, each)
            for each in api.request("GET", f"{collection}?detail=true")[collection]
        }
        for collection, kind in _KINDS.items()
    }


def differences(truth: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """``<kind> <id> [<field>]`` -> (truth, model), of all that differs."""
    found: dict[str, tuple[Any, Any]] = {}
    for kind in KINDS:
        expected, has = truth.get(kind, {}), model.get(kind, {})
        for entity_id in sorted({*expected, *has}):
            if entity_id not in expected or entity_id not in has:
                found[f"{kind} {entity_id}"] = expected.get(entity_id), has.get(entity_id)
                continue
            for field, value in expected[entity_id].items():
                if (model_value := _text(has[entity_id][field])) != value:
                    found[f"{kind} {entity_id} {field}"] = value, model_value
    return found


def _fields(collection: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    names = {**{name: name for name in _SAME[collection].split()}, **_RENAMED[collection]}
    fields = {field: answer[name] for field, name in names.items()}
    for field, name in _TIMES.items():
        if name in answer:
            fields[field] = answer[name].replace("+00:00", "Z") if answer[name] else None
    if "traits" in answer:
        fields["traits"] = sorted(answer["traits"])
    return fields


def _text(value: Any) -> Any:
    """A time as the truth has it; every other value as it is."""
    return value.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(value, datetime.datetime) else value
