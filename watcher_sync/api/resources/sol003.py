# SPDX-License-Identifier: Apache-2.0
"""A VNF instance in the form of ETSI GS NFV-SOL 003: ``instantiatedVnfInfo``, computed from the instance's own fields.

It contains only observed levels, so it has no level before the first sync.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watcher_sync.api.core.schemas import STRING, Schema, nullable

_OBJECT: Schema = {"type": "object"}
_LEVEL = {"type": "integer", "minimum": 0}


def _list_of(required: tuple[str, ...], **properties: Schema) -> Schema:
    return {"type": "array", "items": {"type": "object", "required": list(required), "properties": properties}}


SCHEMA: Schema = {
    "type": "object",
    "description": "The member of this name of SOL003's VnfInstance.",
    "required": ["flavourId", "vnfState", "scaleStatus", "maxScaleLevels", "vnfcResourceInfo", "vnfcInfo", "metadata"],
    "properties": {
        "flavourId": nullable(STRING),
        "vnfState": {"enum": ["STARTED", "STOPPED"]},
        "scaleStatus": _list_of(
            ("aspectId", "scaleLevel"), aspectId=STRING, vnfdId=nullable(STRING), scaleLevel=_LEVEL
        ),
        "maxScaleLevels": _list_of(
            ("aspectId", "scaleLevel"), aspectId=STRING, vnfdId=nullable(STRING), scaleLevel=_LEVEL
        ),
        "vnfcResourceInfo": _list_of(
            ("id", "vduId", "computeResource"),
            id=STRING,
            vduId=STRING,
            vnfdId=nullable(STRING),
            computeResource={
                "type": "object",
                "required": ["resourceId"],
                "properties": {
                    "vimConnectionId": nullable(STRING),
                    "resourceProviderId": nullable(STRING),
                    "resourceId": nullable(STRING) | {"description": "Name of the pod."},
                    "vimLevelResourceType": nullable(STRING),
                },
            },
            zoneId=nullable(STRING),
            storageResourceIds={"type": "array", "items": STRING},
            reservationId=nullable(STRING),
            vnfcCpInfo={"type": "array", "items": _OBJECT},
            metadata=_OBJECT,
        ),
        "vnfcInfo": _list_of(
            ("id", "vduId", "vnfcState"),
            id=STRING,
            vduId=STRING,
            vnfcResourceInfoId=STRING,
            vnfcState={"enum": ["STARTED", "STOPPED"]},
            vnfcConfigurableProperties=_OBJECT,
        ),
        "metadata": {
            "type": "object",
            "properties": {"namespace": nullable(STRING), "vdu_reses": _OBJECT},
        },
    },
}

NAME = "instantiatedVnfInfo"


def instantiated(row: Mapping[str, Any]) -> dict[str, Any]:
    """Computes ``instantiatedVnfInfo`` of one instance.

    :param row: the fields of the instance.
    """
    vnfd_id = row["vnfd_id"]
    aspects: Mapping[str, Any] = row["aspects"] or {}
    levels: Mapping[str, Any] = row["scale_level"] or {}
    resources = row["vnfc_resource_info"] or []

    def status(level_of: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {"aspectId": name, "vnfdId": vnfd_id, "scaleLevel": level_of[name]} for name in aspects if name in level_of
        ]

    return {
        "flavourId": row["flavour_id"],
        "vnfState": "STARTED" if resources else "STOPPED",
        "scaleStatus": status(levels),
        "maxScaleLevels": status({name: aspect["max_scale_level"] for name, aspect in aspects.items()}),
        # The field "pod" assigns a pod to the entry; SOL003 does not define it.
        "vnfcResourceInfo": [{name: value for name, value in v.items() if name != "pod"} for v in resources],
        "vnfcInfo": row["vnfc_info"] or [],
        "metadata": {
            "namespace": row["namespace"],
            "vdu_reses": {
                name: {"kind": vdu["workload"]["kind"], "metadata": {"name": vdu["workload"]["name"]}}
                for name, vdu in (row["vdus"] or {}).items()
            },
        },
    }
