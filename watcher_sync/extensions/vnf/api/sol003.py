# SPDX-License-Identifier: Apache-2.0
"""A VNF instance in the form of ETSI GS NFV-SOL 003 (VnfInstance), computed from the instance's own fields.

``instantiatedVnfInfo`` contains only observed levels, so it has no level before the first sync. An optional attribute
without a value is absent. What is registered runs, so its ``instantiationState`` is INSTANTIATED.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watcher_sync.api.http.schemas import STRING, Schema, nullable

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
            zoneId=STRING,
            storageResourceIds={"type": "array", "items": STRING},
            reservationId=STRING,
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
            "properties": {
                "namespace": nullable(STRING),
                "vdu_reses": _OBJECT
                | {"description": "VDU -> its workload; spec.replicas is the number of its pods, once it is known."},
            },
        },
        "extCpInfo": {"type": "array", "items": _OBJECT},
    },
}

NAME = "instantiatedVnfInfo"

FIELDS = {
    "vnfInstanceName": "name",
    "vnfdId": "vnfd_id",
    "vnfProvider": "vnf_provider",
    "vnfProductName": "vnf_product_name",
    "vnfSoftwareVersion": "vnf_software_version",
    "vnfdVersion": "vnfd_version",
}
"""Attribute of VnfInstance -> the field of the same meaning."""

GIVEN = {**FIELDS, "flavourId": "flavour_id", "extCpInfo": "ext_cp_info"}
"""Name that a registration may use -> the field. The last two are shown in ``instantiatedVnfInfo``."""

ATTRIBUTES: dict[str, Schema] = {
    **dict.fromkeys(FIELDS, STRING),
    "instantiationState": {"enum": ["INSTANTIATED"]},
    "_links": {
        "type": "object",
        "required": ["self"],
        "properties": {"self": {"type": "object", "required": ["href"], "properties": {"href": STRING}}},
    },
    NAME: SCHEMA,
}
"""The attributes of VnfInstance beside the instance's own fields, and their schemas."""


def attributes(row: Mapping[str, Any], link: str) -> dict[str, Any]:
    """Computes the attributes of one instance that are not complex: without ``instantiatedVnfInfo``.

    :param row: the fields of the instance.
    :param link: to the instance.
    """
    return {
        **{name: row[field] for name, field in FIELDS.items() if row[field] is not None},
        "instantiationState": "INSTANTIATED",
        "_links": {"self": {"href": link}},
    }


def instantiated(row: Mapping[str, Any]) -> dict[str, Any]:
    """Computes ``instantiatedVnfInfo`` of one instance.

    :param row: the fields of the instance.
    """
    vnfd_id = row["vnfd_id"]
    aspects: Mapping[str, Any] = row["aspects"] or {}
    levels: Mapping[str, Any] = row["scale_level"] or {}
    resources = row["vnfc_resource_info"] or []
    observed: Mapping[str, Any] = row["observed"] or {}

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
        "vnfcResourceInfo": [_resource_info(v) for v in resources],
        "vnfcInfo": row["vnfc_info"] or [],
        "metadata": {
            "namespace": row["namespace"],
            "vdu_reses": {
                name: {
                    "kind": vdu["workload"]["kind"],
                    "metadata": {key: vdu["workload"][key] for key in ("name", "labels") if key in vdu["workload"]},
                    **({"spec": {"replicas": observed[name]}} if name in observed else {}),
                }
                for name, vdu in (row["vdus"] or {}).items()
            },
        },
        **({"extCpInfo": row["ext_cp_info"]} if row["ext_cp_info"] is not None else {}),
    }


def _resource_info(vnfc: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without ``pod``."""
    return {name: value for name, value in vnfc.items() if name != "pod"}
