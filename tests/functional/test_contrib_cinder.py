# SPDX-License-Identifier: Apache-2.0
"""The distribution for Cinder works as its README says, installed beside the package."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.functional.test_plugin_example import Installed, Printed
from tests.source_copy import ROOT

CINDER = ROOT / "contrib" / "watcher-sync-cinder"
RECORDINGS = ROOT / "tests" / "unit" / "contrib" / "recordings"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Printed:
    """What the installed commands print, one after the other."""
    installed = Installed(tmp_path_factory.mktemp("cinder"), CINDER)
    installed.install()
    recording = installed.folder / "cinder.jsonl"
    recording.write_bytes(gzip.decompress((RECORDINGS / "cinder.jsonl.gz").read_bytes()))
    return installed.manage_each(
        db_sync=["db_sync"],
        handlers=["handlers"],
        replay=["replay", "-f", "json", recording],
        volumes=["model", "dump", "--kind", "volume"],
        snapshots=["model", "dump", "--kind", "volume_snapshot"],
        again=["replay", "-f", "json", recording],
    )


def test_the_patterns_are_in_the_dispatch_table(printed: Printed) -> None:
    table = [line.split() for line in printed["handlers"].splitlines()]
    for pattern in ("volume.*", "snapshot.*", "scheduler.*", "volume_type.*", "capacity.pool"):
        assert any(pattern in line and any("cinder" in word for word in line) for line in table)


def test_a_recording_of_a_real_cinder_is_replayed_without_a_refusal(printed: Printed) -> None:
    counts = json.loads(printed["replay"])
    assert counts["quarantined"] == counts["parked"] == 0
    assert counts["applied"] > 100


def test_the_model_has_the_volumes_of_the_last_answer_of_the_api(printed: Printed) -> None:
    document = json.loads(Path(RECORDINGS / "cinder.truth.json").read_text())
    for kind, shown in (("volume", "volumes"), ("volume_snapshot", "snapshots")):
        found = {one["id"] for one in map(json.loads, printed[shown].splitlines())}
        assert found == document["truth"][kind].keys()


def test_the_second_replay_changes_nothing(printed: Printed) -> None:
    assert json.loads(printed["again"])["applied"] == 0
