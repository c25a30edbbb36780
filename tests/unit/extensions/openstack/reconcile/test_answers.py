# SPDX-License-Identifier: Apache-2.0
"""Answers that are too large, and what a failure shows of the address of the API."""

from __future__ import annotations

import logging
import re

import pytest

from tests.nova_sites import NovaSite, truth
from watcher_sync.exceptions import ReconcileError
from watcher_sync.extensions.openstack.cloud import transport as openstack_transport
from watcher_sync.storage.groups.source_status import read_inventory
from watcher_sync.testing.openstack import Answer, Cut, FakeOpenStack, Garbage, server_error
from watcher_sync.testing.openstack.messages import ApiError

pytestmark = pytest.mark.slow


@pytest.fixture
def limit(monkeypatch) -> int:
    monkeypatch.setattr(openstack_transport, "MAX_ANSWER_BYTES", 100_000)
    return 100_000


@pytest.mark.parametrize(
    ("path", "what"), [("/servers/detail", "servers"), ("os-hypervisors", "hypervisors"), ("flavors", "flavors")]
)
def test_an_answer_that_is_too_large_ends_its_listing_and_is_named(
    site: NovaSite, cloud: FakeOpenStack, limit: int, path: str, what: str
):
    site.reconcile()
    cloud.fail(Garbage(b'{"servers": [], "hypervisors": [], "flavors": []}'.ljust(limit + 1)), path=path)
    report = site.reconcile()
    assert (report.complete, report.deleted, list(report.failures)) == (False, 0, [what])
    assert "the answer has more than 100000 bytes" in report.failures[what]
    assert path.strip("/") in report.failures[what]
    cloud.heal()
    assert site.reconcile().complete
    assert site.instances() == truth(cloud)


def test_an_answer_up_to_the_limit_is_read(site: NovaSite, cloud: FakeOpenStack, limit: int):
    cloud.fail(Garbage(b'{"flavors": []}'.ljust(limit)), path="flavors")
    assert site.reconcile().complete


def test_an_answer_of_keystone_that_is_too_large_is_a_failed_run(site: NovaSite, monkeypatch):
    monkeypatch.setattr(openstack_transport, "MAX_ANSWER_BYTES", 10)
    with pytest.raises(ReconcileError, match="the answer has more than 10 bytes"):
        site.reconcile()


@pytest.mark.parametrize("service", ["compute", "identity"])
def test_the_reason_of_a_failed_run_has_no_address_and_the_log_has_it_once(
    site: NovaSite, cloud: FakeOpenStack, caplog, service: str
):
    caplog.set_level(logging.INFO, "watcher_sync")
    if service == "compute":  # so that the discovery of its versions is cached
        site.reconcile()
    getattr(cloud, service).stop()
    for _ in range(2):
        with pytest.raises(ReconcileError) as failed:
            site.reconcile()
    inventory = read_inventory(site.store.database, "nova")
    assert inventory is not None
    named = "keystone" if service == "identity" else service
    for text in (str(failed.value), inventory.problem):
        assert f"{named}: Connection refused" in text
        assert "127.0.0.1" not in text
        assert "http" not in text
    logged = [r for r in caplog.records if r.name.startswith("watcher_sync.") and "127.0.0.1" in r.getMessage()]
    [message] = [record.getMessage() for record in logged]
    assert re.fullmatch(rf"\[reconcile_nova\] {named}: http://127\.0\.0\.1:\d+: Connection refused", message)


@pytest.mark.parametrize(
    "action", [Cut(), server_error(503), Answer(ApiError(500, "see http://127.0.0.1:8774/v2.1 now"))]
)
def test_the_reason_of_a_partial_run_has_no_address(site: NovaSite, cloud: FakeOpenStack, action):
    site.reconcile()
    cloud.fail(action, path="/servers/detail", after=1, count=None)
    why = site.reconcile().failures["servers"]
    assert "http" not in why
    assert "127.0.0.1" not in why
