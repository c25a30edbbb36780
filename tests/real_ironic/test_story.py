# SPDX-License-Identifier: Apache-2.0
"""After each step of the story, two models are compared with the answers of Ironic's API, field by field."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_ironic import story
from tests.real_ironic.cloud import Cloud
from tests.real_ironic.followers import Follower
from tests.real_ironic.recording import Recorder
from tests.real_ironic.truth import differences, read_truth
from tests.unit.contrib.ironic_facts import SILENT, silent_fact

pytestmark = pytest.mark.timeout(900)

RECORDING = "WATCHER_SYNC_TEST_RECORDING"
"""Names a folder for the recording: the notifications, and what the API answered after each step."""


@pytest.fixture
def recorder(cloud: Cloud) -> Iterator[Recorder]:
    """Everything that Ironic publishes from now on."""
    with Recorder(cloud.transport_url) as made:
        yield made


@pytest.fixture
def followers(cloud: Cloud, recorder: Recorder, tmp_path: Path) -> Iterator[dict[str, Follower]]:
    """The two installations, started."""
    made = {name: Follower(name, cloud, tmp_path / name) for name in ("notifications", "both")}
    try:
        for follower in made.values():
            follower.start()
        yield made
    finally:
        for follower in made.values():
            follower.stop()


def test_after_each_step_the_models_are_what_ironic_answers(
    cloud: Cloud, recorder: Recorder, followers: dict[str, Follower]
) -> None:
    wrong: list[str] = []
    needed: set[str] = set()
    steps: list[dict[str, Any]] = []
    for step in story.STEPS:
        step(cloud)
        recorder.await_silence()
        for follower in followers.values():
            follower.settle(len(recorder.notifications))
        followers["both"].reconcile()
        truth = read_truth(cloud.api())
        for name, follower in followers.items():
            for what, values in differences(truth, follower.model()).items():
                fact = silent_fact(what, step.__name__) if name == "notifications" else None
                if fact is None:
                    wrong.append(f"{step.__name__}: {name}: {what}: {values}")
                else:
                    needed.add(fact)
        steps.append({"step": step.__name__, "notifications": len(recorder.notifications), "truth": truth})
    if folder := os.environ.get(RECORDING):
        _write(Path(folder), "ironic.jsonl.gz", recorder.notifications)
        _write(Path(folder), "ironic.truth.jsonl.gz", steps)
    assert not wrong, "\n".join(wrong)
    assert needed == SILENT.keys(), "a fact is listed, but nothing needs it"


def _write(folder: Path, name: str, documents: Iterable[Any]) -> None:
    lines = "".join(f"{json.dumps(each, sort_keys=True)}\n" for each in documents)
    (folder / name).write_bytes(gzip.compress(lines.encode(), mtime=0))
