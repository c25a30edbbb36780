# SPDX-License-Identifier: Apache-2.0
"""The last comparison of the demo with the cloud that existed before it listened."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Iterator

import pytest

from tests.nova_sites import NovaSite
from tests.simulated import telling, told
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.demo.existing_cloud import ExistingCloud
from watcher_sync.exceptions import ReconcileError
from watcher_sync.model.changes import Upsert
from watcher_sync.testing.openstack import server_error

FOREIGN = "5f1e7c2a-93b0-4d4e-8f6a-0b6a2d9c4e11"


@pytest.fixture
def existing() -> Iterator[ExistingCloud]:
    with ExistingCloud(seed=7, hosts=3, instances=5) as existing:
        yield existing


@pytest.fixture
def site(existing: ExistingCloud, tmp_path: pathlib.Path) -> Iterator[NovaSite]:
    """A model with the cloud, and with an instance that the cloud never had."""
    site = NovaSite(tmp_path, existing._openstack)
    existing.reconcile(site.conf, site.store, 60)
    foreign = Upsert("instance", FOREIGN, "1", {"state": {"state": "active"}})
    CommitCycle(site.store, site.store.load(), telling()).run(Batch(events=[told(1, foreign)]))
    yield site
    site.close()


@pytest.mark.slow
def test_a_comparison_that_was_incomplete_is_repeated(existing: ExistingCloud, site: NovaSite) -> None:
    existing._openstack.fail(server_error(500), path=f"/servers/{FOREIGN}", count=1)
    existing.reconcile(site.conf, site.store, 60)
    assert site.model.get("instance", FOREIGN) is None


@pytest.mark.slow
def test_a_comparison_that_stays_incomplete_says_why(
    existing: ExistingCloud, site: NovaSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watcher_sync.demo.existing_cloud._PAUSE_SECONDS", math.inf)  # no time for another one
    existing._openstack.fail(server_error(500), path=f"/servers/{FOREIGN}", count=None)
    with pytest.raises(ReconcileError, match="servers: missing servers cannot be confirmed"):
        existing.reconcile(site.conf, site.store, 60)
