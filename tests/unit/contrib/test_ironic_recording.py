# SPDX-License-Identifier: Apache-2.0
"""The notifications of a real Ironic, which ``tests/real_ironic`` recorded, end in what its API answered."""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.real_ironic.truth import differences
from tests.unit.contrib.ironic_events import played
from tests.unit.contrib.ironic_facts import silent_fact

pytestmark = pytest.mark.slow

_FOLDER = Path(__file__).with_name("recordings")


@functools.cache
def recorded(name: str) -> list[dict[str, Any]]:
    """The documents of a file."""
    return [json.loads(line) for line in gzip.decompress((_FOLDER / name).read_bytes()).splitlines()]


STEPS = recorded("ironic.truth.jsonl.gz")


def unexplained(step: dict[str, Any], events: list[dict[str, Any]], batch_size: int = 500) -> dict[str, Any]:
    """What the model of these events has wrong, without the listed facts."""
    model = played(events, batch_size)
    assert model.refused == []
    found = differences(step["truth"], model.entities)
    return {what: values for what, values in found.items() if silent_fact(what, step["step"]) is None}


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[step["step"] for step in STEPS])
def test_after_each_step_the_model_is_what_the_api_answered(number: int) -> None:
    step = STEPS[number]
    assert unexplained(step, recorded("ironic.jsonl.gz")[: step["notifications"]]) == {}


@given(data=st.data())
@settings(max_examples=40)
def test_any_order_and_duplication_of_the_recording_ends_in_what_the_api_answered(data: st.DataObject) -> None:
    step = data.draw(st.sampled_from(STEPS))
    events = recorded("ironic.jsonl.gz")[: step["notifications"]]
    random = data.draw(st.randoms(use_true_random=False))
    shuffled = [*events, *random.sample(events, len(events) // 4)]
    random.shuffle(shuffled)
    assert unexplained(step, shuffled, random.choice([1, 20, 500])) == {}


def test_the_recording_names_no_machine_and_no_secret() -> None:
    text = json.dumps(recorded("ironic.jsonl.gz"))
    assert {each["publisher_id"] for each in recorded("ironic.jsonl.gz")} == {
        "ironic-api.ironic-1",
        "ironic-conductor.ironic-1",
    }
    for secret in ("/root", "/tmp", "/home", "127.0.0.1", '"rescue_password": "secret"'):
        assert secret not in text
