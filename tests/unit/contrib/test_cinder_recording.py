# SPDX-License-Identifier: Apache-2.0
"""The notifications of a real Cinder end in what its API answered, in any order and with repetitions.

``WATCHER_SYNC_TEST_REAL_CINDER_RECORDING`` of ``tests/real_cinder`` writes the recording.
"""

from __future__ import annotations

import functools
import gzip
import json
import random
from pathlib import Path

import pytest
from watcher_sync_cinder.kinds import KINDS

from tests.real_cinder.facts import FACTS, explain
from tests.real_cinder.truth import time_of
from tests.real_nova.truth import differences
from tests.unit.contrib.cinder_events import playing

_FOLDER = Path(__file__).with_name("recordings")


@functools.cache
def recorded():
    return [json.loads(line) for line in gzip.decompress((_FOLDER / "cinder.jsonl.gz").read_bytes()).splitlines()]


@functools.cache
def final():
    """The API's last answer, and the ids of what existed before the recording."""
    document = json.loads((_FOLDER / "cinder.truth.json").read_text())
    for rows in document["truth"].values():
        for row in rows.values():
            if "created_at" in row:
                row["created_at"] = time_of(row["created_at"])
    return document["truth"], document["earlier"]


def unexplained(found):
    truth, earlier = final()
    model = {kind: found.entities.get(kind, {}) for kind in truth}
    return [str(one) for one in differences(truth, model) if explain(one, earlier) is None]


def test_the_recording_ends_in_what_the_api_answered_but_for_the_facts_that_it_alone_knows():
    found = playing(*recorded())
    assert (found.refused, unexplained(found)) == ([], [])
    assert found.entities.keys() == final()[0].keys()


@pytest.mark.parametrize("seed", range(4))
def test_the_recording_in_any_order_and_with_repetitions_ends_in_the_same_model(seed):
    dice = random.Random(seed)
    events = [*recorded(), *dice.sample(recorded(), 30)]
    dice.shuffle(events)
    assert playing(*events, batch_size=dice.choice((1, 7, 500))).entities == playing(*recorded()).entities


def test_the_recording_has_nothing_of_accounts():
    text = json.dumps(recorded())
    assert "token" not in text
    assert "127.0.0.1" not in text


def test_each_fact_names_fields_of_its_kind():
    kinds = {kind.__name__: set(kind.__annotations__) for kind in KINDS}
    names = {"storage_backend": "StorageBackend", "storage_pool": "StoragePool", "volume_type": "VolumeType"}
    names |= {"volume": "Volume", "volume_snapshot": "VolumeSnapshot"}
    for fact in FACTS:
        assert set(fact.fields) <= kinds[names[fact.kind]]
