# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest

from watcher_sync.testing.nova import notifications
from watcher_sync.testing.nova.notification_types import ERRORS, INSTANCE


def shape(value: Any) -> Any:
    """Keys, classes and versions of a document, without its values."""
    if isinstance(value, dict) and notifications.DATA in value:
        fields = {name: shape(field) for name, field in value[notifications.DATA].items() if isinstance(field, dict)}
        return (value["nova_object.name"], value["nova_object.version"], sorted(value[notifications.DATA]), fields)
    return None


def test_every_sample_of_nova_has_the_shape_that_we_build(nova_samples: list[dict[str, Any]]) -> None:
    for sample in nova_samples:
        built = notifications.event(sample["event_type"])
        assert shape(sample["payload"]) == shape(built["payload"]), sample["event_type"]
        assert sample.keys() <= built.keys()
        assert sample["priority"] == built["priority"]
        assert sample["publisher_id"].partition(":")[0] in ("nova-compute", "nova-api")


def test_every_sample_of_nova_ends_in_the_state_that_we_build(nova_samples: list[dict[str, Any]]) -> None:
    for sample in nova_samples:
        data, built = (
            sample["payload"][notifications.DATA],
            notifications.event(sample["event_type"])["payload"][notifications.DATA],
        )
        if "uuid" in data and sample["event_type"] not in ("instance.update", "service.update"):
            assert data.get("task_state") == built.get("task_state"), sample["event_type"]
            assert data.get("state") == built.get("state"), sample["event_type"]


@pytest.mark.slow
@pytest.mark.parametrize("event_type", notifications.event_types())
def test_every_event_type_is_built_as_an_envelope_of_nova(event_type: str) -> None:
    document = notifications.event(event_type)
    assert set(document) == {"message_id", "publisher_id", "event_type", "priority", "payload", "timestamp"}
    assert document["event_type"] == event_type
    assert document["payload"]["nova_object.namespace"] == "nova"
    assert json.loads(notifications.oslo_envelope(document)["oslo.message"]).items() >= document.items()


@pytest.mark.parametrize("event_type", sorted(INSTANCE))
def test_an_instance_event_is_as_large_as_a_real_one(event_type: str) -> None:
    document = notifications.event(event_type)
    assert 2_300 <= len(json.dumps(document)) <= 4_000
    assert 3_000 <= len(json.dumps(notifications.oslo_envelope(document))) <= 4_200


@pytest.mark.parametrize("event_type", sorted(INSTANCE))
def test_a_whole_record_makes_the_same_payload_as_single_fields(event_type: str) -> None:
    more = {"fault": ("NoValidHost", "none")} if event_type in ERRORS else {}
    fast = notifications.from_record(event_type, notifications.instance_record(), more, envelope={"message_id": "m"})
    assert shape(fast["payload"]) == shape(notifications.event(event_type)["payload"])


@pytest.mark.parametrize("event_type", sorted(ERRORS))
def test_an_error_event_has_priority_error_and_a_fault(event_type: str) -> None:
    document = notifications.event(event_type, fault=("DiskFull", "no space left"))
    told = document["payload"][notifications.DATA]["fault"][notifications.DATA]
    assert document["priority"] == "ERROR"
    assert (told["exception"], told["exception_message"]) == ("DiskFull", "no space left")


def test_a_field_that_nova_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="hostname"):
        notifications.event("instance.power_off.end", hostname="typo")
    with pytest.raises(TypeError, match=r"vcpu$"):
        notifications.event("instance.power_off.end", flavor={"vcpu": 2})
    with pytest.raises(KeyError):
        notifications.event("instance.power_of.end")


def test_a_field_can_be_dropped_and_an_unknown_one_added() -> None:
    data = notifications.event("instance.lock", drop=("locked", "flavor.extra_specs"), extra={"new": 1})["payload"][
        notifications.DATA
    ]
    assert "locked" not in data
    assert "extra_specs" not in data["flavor"][notifications.DATA]
    assert data["new"] == 1


def test_what_one_caller_changes_the_next_does_not_see() -> None:
    first = notifications.event("instance.power_off.end")
    first["payload"][notifications.DATA]["flavor"][notifications.DATA]["extra_specs"].clear()
    first["payload"][notifications.DATA]["metadata"].clear()
    assert notifications.event("instance.power_off.end")["payload"][notifications.DATA]["flavor"][notifications.DATA][
        "extra_specs"
    ]
    assert notifications.event("instance.power_off.end")["payload"][notifications.DATA]["metadata"]
