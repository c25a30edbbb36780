# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import random

import msgspec
import pytest

from watcher_sync.testing.nova.notifications import DATA
from watcher_sync.testing.poison import MEBIBYTE, NULLABLE, poison


def test_labels_are_unique_and_both_kinds_are_there() -> None:
    items = list(poison(random.Random(1)))
    assert len({item.label for item in items}) == len(items)
    assert sum(item.quarantine for item in items) > 60
    assert sum(not item.quarantine for item in items) >= sum(map(len, NULLABLE.values()))
    assert sum(len(item.raw) >= MEBIBYTE for item in items) >= 4


def test_one_seed_makes_one_sequence_and_another_other_ids() -> None:
    assert list(poison(random.Random(1))) == list(poison(random.Random(1)))
    assert list(poison(random.Random(1))) != list(poison(random.Random(2)))


@pytest.mark.parametrize("form", ["bare", "oslo"])
def test_what_is_to_be_applied_is_json_about_an_instance_of_its_own(form: str) -> None:
    seen: set[str] = set()
    for item in poison(random.Random(1), form=form):  # type: ignore[arg-type]
        if item.quarantine:
            continue
        document = json.loads(item.raw)
        if form == "oslo":
            document = json.loads(document["oslo.message"])
        assert document["message_id"] not in seen
        seen.add(document["message_id"])
        if "null in" in item.label:
            name = item.label.rpartition(" ")[2]
            data = document["payload"][DATA]
            assert (data["flavor"][DATA]["extra_specs"] if name.startswith("flavor.") else data[name]) is None


def test_what_is_no_json_cannot_be_decoded() -> None:
    bodies = {item.label: item.raw for item in poison(random.Random(1))}
    for label in ("an empty body", "not JSON", "JSON cut off", "two JSON documents", "invalid UTF-8", "UTF-16",
                  "NaN where a number belongs", "JSON nested 100,000 deep"):  # fmt: skip
        with pytest.raises((msgspec.DecodeError, UnicodeDecodeError, RecursionError)):
            msgspec.json.decode(bodies[label])
