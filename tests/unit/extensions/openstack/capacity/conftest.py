# SPDX-License-Identifier: Apache-2.0
"""A database with hosts, and the capacity reconciler over providers that report what the test says."""

from __future__ import annotations

import time

import pytest

from tests.simulated import nova
from tests.sites import Site
from tests.unit.reconcile.conftest import clock, conf, said, stepped  # noqa: F401
from tests.waiting import deadline
from watcher_sync.assembly.reconcile import make_context
from watcher_sync.extensions.openstack.capacity.reconciler import CapacityReconciler
from watcher_sync.model.changes import Upsert
from watcher_sync.reconcile.capacity_provider import CapacityError, CapacityProvider
from watcher_sync.storage.drifts import list_drifts


class Reporting(CapacityProvider):
    """A provider whose report is an attribute; an exception in its place is raised."""

    def __init__(self, *report):
        super().__init__(None)
        self.report = list(report)

    def capacities(self, deadline):
        if isinstance(self.report, Exception):
            raise self.report
        return self.report

    def fail(self):
        self.report = CapacityError("it is away")


class CapacitySite(Site):
    """A database, and reconcilers over it."""

    def __init__(self, folder):
        super().__init__(folder)
        self.context = make_context(self.conf, self.store, nova(), lambda: self.model)

    def add_hosts(self, *hosts):
        self.write(*(Upsert("compute_node", h, "1", {"service": {"status": "enabled"}}) for h in hosts))

    def reconciler(self, **providers):
        return CapacityReconciler(self.conf, self.context, providers=providers)

    def node(self, host="host-1"):
        return self.model.get("compute_node", host)

    def fields(self, *names, host="host-1"):
        node = self.node(host)
        return tuple(getattr(node, name) for name in names)

    def head(self):
        return self.store.load().generation

    def drifts(self):
        return [(d.entity_id, d.field, d.model_value, d.live_value) for d in list_drifts(self.store.database)]


@pytest.fixture
def site(tmp_path):
    site = CapacitySite(tmp_path)
    site.add_hosts("host-1", "host-2")
    yield site
    site.close()


@pytest.fixture
def run():
    """Runs one scope."""
    return lambda reconciler, scope="a", **how: reconciler.run(scope, deadline=time.monotonic() + deadline(120), **how)
