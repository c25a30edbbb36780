# SPDX-License-Identifier: Apache-2.0
"""After each step of the story, the models are held against the answers of Nova and Placement, field by field."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.real_nova import story
from tests.real_nova.cloud import Cloud
from tests.real_nova.defaults import DEFAULTS, UNPUBLISHED, DefaultNotifications
from tests.real_nova.facts import FACTS, Heard, explain, label
from tests.real_nova.modes import BOTH, NOTIFICATIONS, RECONCILIATION, Follower, followers
from tests.real_nova.recording import Notification, Recorder
from tests.real_nova.stage import Stage
from tests.real_nova.table import Table
from tests.real_nova.truth import differences, read_truth
from watcher_sync.testing.comparison import ModelDifference

pytestmark = pytest.mark.timeout(2400)

REPORT = "WATCHER_SYNC_TEST_REAL_NOVA_REPORT"
"""Names a folder for the recorded notifications of each step and the differences after it."""


class Comparison:
    """The three installations, and what they have wrong after each step."""

    def __init__(self, stage: Stage, recorder: Recorder, modes: Mapping[str, Follower]) -> None:
        self._stage = stage
        self._recorder = recorder
        self._modes = modes
        self._before = read_truth(stage.admin)
        self._step_began = recorder.count
        self._by_default = DefaultNotifications()
        self.table = Table([RECONCILIATION, BOTH, NOTIFICATIONS, DEFAULTS])
        self.wrong: list[str] = []
        """What should not differ, and what no fact explains."""
        self.explained: set[str] = set()
        """Names of the facts that explained a difference."""

    def after(self, step: str) -> None:
        """Wait until everything is still, and compare."""
        self._recorder.await_silence()
        published = self._recorder.count
        with ThreadPoolExecutor(len(self._modes)) as pool:
            reports = list(pool.map(lambda follower: _catch_up(follower, published), self._modes.values()))
        truth = read_truth(self._stage.admin)
        found = {mode: list(differences(truth, follower.model())) for mode, follower in self._modes.items()}
        self._by_default.feed(self._recorder.since(self._step_began))
        found[DEFAULTS] = list(differences(truth, self._by_default.model()))
        heard = self._heard()
        # One name for all fields of an entity that have one reason.
        labels: dict[str, set[tuple[str, str]]] = {mode: set() for mode in found}
        for mode, some in found.items():
            for difference in some:
                fact = None
                if mode in (NOTIFICATIONS, DEFAULTS):
                    by_default = mode == DEFAULTS or not self._stage.cloud.site.notify
                    fact = explain(difference, heard, by_default=by_default)
                labels[mode].add((label(difference, fact), difference.entity_id))
                if fact is None:
                    self.wrong.append(f"{step}: {mode}: {difference}")
                else:
                    self.explained.add(fact.name)
        self.table.add(step, {mode: [name for name, _ in some] for mode, some in labels.items()})
        _write_report(step, self._recorder.since(self._step_began), found, reports)
        self._step_began = published

    def _heard(self) -> Heard:
        seen = self._recorder.since(0)
        servers = _named(seen, "instance.")
        broken = {n.request for n in seen if n.event_type == "compute.exception"}
        built = _named((n for n in seen if n.event_type != UNPUBLISHED), "instance.")
        return Heard(
            servers=self._before["instance"].keys() - servers,
            aggregates=self._before["aggregate"].keys() - _named(seen, "aggregate."),
            services={str(n.data.get("host")) for n in seen if n.event_type.startswith("service.")},
            rolled_back=_named(seen, "instance.live_migration_rollback.end"),
            failed_builds=_named(seen, "instance.create.error"),
            unscheduled=_named(seen, "compute_task.build_instances.error") - built,
            broken=_named((n for n in seen if n.request in broken), "instance."),
        )


def _named(seen: Iterable[Notification], prefix: str) -> set[str]:
    """Ids of what the events whose type begins so are about."""
    found = (n.data.get("uuid") or n.data.get("instance_uuid") for n in seen if n.event_type.startswith(prefix))
    return {str(one) for one in found if one}


def _catch_up(follower: Follower, published: int) -> list[str]:
    follower.settle(published)
    if not follower.reconciles:
        return []
    return [f"{follower.mode}: {report}" for report in follower.reconcile()]


@pytest.fixture
def stage(cloud: Cloud) -> Stage:
    """The cloud, with what existed before anybody listened."""
    made = Stage(cloud, None)
    story.before(made)
    return made


@pytest.fixture
def recorder(stage: Stage) -> Iterator[Recorder]:
    """Everything that the cloud publishes from now on."""
    with Recorder(stage.cloud.transport_urls) as made:
        stage.recorder = made
        yield made


@pytest.fixture
def modes(stage: Stage, recorder: Recorder, tmp_path: Path) -> Iterator[Mapping[str, Follower]]:
    """The three installations, started. Their queues miss nothing that the recorder has."""
    made = followers(stage.cloud, tmp_path)
    try:
        for follower in made.values():
            follower.bind(stage.cloud)
        for follower in made.values():
            follower.start()
        yield made
    finally:
        for follower in made.values():
            follower.stop()


def test_after_each_step_the_models_are_what_nova_and_placement_answer(
    stage: Stage, recorder: Recorder, modes: Mapping[str, Follower], capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = Comparison(stage, recorder, modes)
    try:
        comparison.after("the engines start")
        for step, function in story.STEPS:
            stage.begin_step()
            function(stage)
            comparison.after(step)
    finally:
        with capsys.disabled():
            _show(comparison)
    assert not comparison.wrong, f"{len(comparison.wrong)} differences:\n" + "\n".join(comparison.wrong)


def _show(comparison: Comparison) -> None:
    print("\n\nWhat differs after each step; a dash means that nothing does:\n")
    print("\n".join(comparison.table.lines()))
    print("\nWhat only reconciliation can know. A star marks what this run has shown:\n")
    for fact in FACTS:
        mark = "*" if fact.name in comparison.explained else " "
        fields = ", ".join(fact.fields) or "the whole entity"
        if len(fact.fields) > 12:
            fields = "any field"
        default = " Nova's default configuration only." if fact.by_default else ""
        print(f"{mark} {fact.name}: {fact.kind}: {fields}. {fact.reason}{default} Asked for: {fact.ask}.")
    print()


def _write_report(
    step: str,
    events: Sequence[Notification],
    found: Mapping[str, Sequence[ModelDifference]],
    reports: Sequence[Sequence[str]],
) -> None:
    if folder := os.environ.get(REPORT):
        path = Path(folder) / f"{step.replace(' ', '_')}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [str(event) for event in events]
        lines += [f"{mode}: {difference}" for mode, some in found.items() for difference in some]
        lines += [line for some in reports for line in some]
        path.write_text("\n".join(lines))
        path.with_suffix(".jsonl").write_text("".join(f"{json.dumps(event.document)}\n" for event in events))
