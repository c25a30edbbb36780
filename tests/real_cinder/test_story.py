# SPDX-License-Identifier: Apache-2.0
"""After each step of the story, the models are held against the answers of Cinder, field by field."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.real_cinder import story
from tests.real_cinder.cloud import EXCHANGE, TOPIC
from tests.real_cinder.facts import FACTS, explain
from tests.real_cinder.modes import CinderFollower
from tests.real_cinder.stage import Stage
from tests.real_cinder.truth import read_truth
from tests.real_nova.modes import BOTH, NOTIFICATIONS
from tests.real_nova.recording import Recorder
from tests.real_nova.truth import Rows, differences
from tests.waiting import deadline

pytestmark = pytest.mark.timeout(1200)

RECORDING = "WATCHER_SYNC_TEST_RECORDING"
"""Names a folder for all notifications and the final answers of the API."""

_EQUAL_SECONDS = 15.0
"""Figures of pools come every three seconds: so long may a step go on to change them."""


class Comparison:
    """The two installations, and what they have wrong after each step."""

    def __init__(self, stage: Stage, recorder: Recorder, modes: Mapping[str, CinderFollower]) -> None:
        self._stage = stage
        self._recorder = recorder
        self._modes = modes
        self.truth: dict[str, Rows] = read_truth(stage.admin, {})
        self.earlier = {entity_id for rows in self.truth.values() for entity_id in rows}
        """Ids of what existed before the queue."""
        self.wrong: list[str] = []
        """What should not differ, and what no fact explains."""
        self.explained: set[str] = set()
        """Names of the facts that explained a difference."""

    def after(self, step: str) -> None:
        """Compare until the models are right, or the time is over."""
        began = time.monotonic()
        end = began + deadline(_EQUAL_SECONDS)
        while True:
            wrong, explained = self._compare()
            if not wrong or time.monotonic() > end:
                break
        self.wrong += [f"{step}: {one}" for one in wrong]
        self.explained |= explained
        seconds = time.monotonic() - began
        print(f"{step}: {seconds:.0f} s; {len(wrong)} wrong; {', '.join(sorted(explained)) or '-'}", flush=True)

    def _compare(self) -> tuple[list[str], set[str]]:
        self._recorder.await_silence()
        published = self._recorder.count
        for follower in self._modes.values():
            follower.settle(published)
        self._modes[BOTH].reconcile()
        self.truth = read_truth(self._stage.admin, self.truth)
        wrong = [f"{BOTH}: {one}" for one in differences(self.truth, self._modes[BOTH].model())]
        explained = set()
        for difference in differences(self.truth, self._modes[NOTIFICATIONS].model()):
            if (fact := explain(difference, self.earlier)) is None:
                wrong.append(f"{NOTIFICATIONS}: {difference}")
            else:
                explained.add(fact.name)
        return wrong, explained


@pytest.fixture
def stage(cloud) -> Stage:
    """The cloud, with what existed before the queues."""
    made = Stage(cloud)
    story.before(made)
    return made


@pytest.fixture
def recorder(stage) -> Iterator[Recorder]:
    """Everything that the cloud publishes from now on."""
    with Recorder([stage.cloud.transport_url], exchange=EXCHANGE, topic=TOPIC) as made:
        yield made


@pytest.fixture
def modes(stage, recorder, tmp_path) -> Iterator[Mapping[str, CinderFollower]]:
    """Both installations, started. Their queues miss nothing that the recorder has."""
    made = {mode: CinderFollower(mode, stage.cloud, tmp_path / mode) for mode in (NOTIFICATIONS, BOTH)}
    try:
        for follower in made.values():
            follower.bind(stage.cloud)
        for follower in made.values():
            follower.start()
        yield made
    finally:
        for follower in made.values():
            follower.stop()


def test_after_each_step_the_models_are_what_cinder_answers(stage, recorder, modes, capsys):
    comparison = Comparison(stage, recorder, modes)
    with capsys.disabled():
        comparison.after("the engines start")
        for step, function in story.STEPS:
            function(stage)
            comparison.after(step)
    _write_recording(recorder, comparison)
    assert not comparison.wrong, f"{len(comparison.wrong)} differences:\n" + "\n".join(comparison.wrong)
    assert {fact.name for fact in FACTS} == comparison.explained


def _write_recording(recorder: Recorder, comparison: Comparison) -> None:
    """Write the envelopes without the context of their requests, which has names of accounts."""
    if folder := os.environ.get(RECORDING):
        path = Path(folder)
        envelopes = [
            {name: value for name, value in each.document.items() if not name.startswith("_")}
            for each in recorder.since(0)
        ]
        lines = "".join(f"{json.dumps(each)}\n" for each in envelopes)
        path.joinpath("cinder.jsonl.gz").write_bytes(gzip.compress(lines.encode(), 9, mtime=0))
        final = {"earlier": sorted(comparison.earlier), "truth": comparison.truth}
        path.joinpath("cinder.truth.json").write_text(json.dumps(final, default=str, indent=1, sort_keys=True) + "\n")
