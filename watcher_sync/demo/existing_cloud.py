# SPDX-License-Identifier: Apache-2.0
"""The simulated cloud as it is before the demo listens, with the API that the reconciler asks.

No notification tells of the servers that exist already, of capacity, and of what Nova never publishes. The reconciler
``nova`` and the capacity provider ``placement`` read them from a fake OpenStack, which shows the simulator's database.
They run every few seconds, and once more after the engine has stopped.
"""

from __future__ import annotations

import datetime
import time
from types import TracebackType
from typing import Any, Final, Self

from oslo_config import cfg

from watcher_sync.assembly.reconcile import make_reconcilers
from watcher_sync.dispatch import load_handlers
from watcher_sync.exceptions import ReconcileError
from watcher_sync.reconcile.base import Reconciler
from watcher_sync.storage.groups.source_status import read_inventory
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.deadlines import deadline
from watcher_sync.testing.ledger import ANYTHING, Truth
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.testing.openstack import FakeOpenStack, SimulatedInventory, inventory_of

_INVENTORY: Final = "nova"
"""The name of the cloud's inventory, and of the scope of a complete comparison."""
_CONFIG: Final = """
[reconcile_nova]
enabled = true
interval = 5
{account}
[reconcile_capacity]
providers = placement
interval = 5
"""
_BOOT_SECONDS: Final = 0.3
"""Simulated time in which one server boots, about. The last ones boot in less than a minute."""
_PAUSE_SECONDS: Final = 0.5
"""Between two repetitions."""


class ExistingCloud:
    """The simulated cloud with its hosts and servers, none of which has been published, and its API."""

    def __init__(self, *, seed: int, hosts: int, instances: int) -> None:
        """:raises ValueError: for fewer than 3 hosts."""
        start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=_BOOT_SECONDS * instances + 60)
        self.simulator = CloudSimulator(seed=seed, hosts=hosts, instances=instances, start=start.replace(microsecond=0))
        self._inventory: SimulatedInventory = inventory_of(self.simulator)
        self._openstack = FakeOpenStack(self._inventory)
        self.repaired = 0
        """Differences that :meth:`reconcile` wrote."""

    def __enter__(self) -> Self:
        for _ in self.simulator.populate():
            pass  # what happened before the demo listens
        self.simulator.follow(time.time)
        self._openstack.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._openstack.stop()

    @property
    def config(self) -> str:
        """What the configuration says of it. The API has to be started."""
        account = "".join(f"{name} = {value}\n" for name, value in self._openstack.options().items())
        return _CONFIG.format(account=account)

    def is_known(self, store: Store) -> bool:
        """Whether a comparison was complete."""
        inventory = read_inventory(store.database, _INVENTORY)
        return inventory is not None and inventory.complete_since is not None

    def reconcile(self, conf: cfg.ConfigOpts, store: Store, seconds: float) -> None:
        """Compare once more, after everything that was published is committed.

        A busy machine may answer one of the requests late. So an incomplete comparison is repeated.

        :param seconds: for each comparison, on an idle reference machine.
        :raises ReconcileError: when the fake cannot be listed, or no comparison is complete in time.
        """
        made = make_reconcilers(conf, store, load_handlers(conf))
        reconcilers = {one.name: one for one in made}
        for name in ("nova", "capacity"):  # a host has to exist before it has capacity
            for scope in reconcilers[name].scopes():
                self._run(reconcilers[name], scope, deadline(seconds))

    def _run(self, reconciler: Reconciler, scope: str, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            report = reconciler.run(scope, deadline=until)
            self.repaired += report.written + report.deleted
            if report.refused_deletes:
                refused = ", ".join(f"{report.refused_share(kind)} {kind}" for kind in sorted(report.refused_deletes))
                raise ReconcileError(f"{scope}: the delete guard refuses deletions: {refused}")
            if not report.failures:
                return
            if time.monotonic() + _PAUSE_SECONDS > until:
                why = "; ".join(f"{what}: {reason}" for what, reason in sorted(report.failures.items()))
                raise ReconcileError(f"{scope}: no complete comparison within {seconds:.0f} s: {why}")
            time.sleep(_PAUSE_SECONDS)

    def truth(self) -> Truth:
        """What the model has to hold after :meth:`reconcile`: what the API can show of the simulator's database."""
        truth = self.simulator.truth()
        with self._inventory.lock:
            self._inventory.refresh()
            for uuid, row in list(truth["instance"].items()):
                if self._inventory.servers[uuid].state == "deleted":  # the row goes soon, and its event follows
                    del truth["instance"][uuid]
                    continue
                row.update(self._shown_otherwise(uuid, row))
        return truth

    def _shown_otherwise(self, uuid: str, row: dict[str, Any]) -> dict[str, Any]:
        """The fields of an instance of which Nova's API shows something else than its database holds."""
        server = self._inventory.servers[uuid]
        shown: dict[str, Any] = {"fault_type": ANYTHING}  # the API has the message only
        if server.host is not None:
            shown["availability_zone"] = self._inventory.zone_of(server.host)
        if server.state == "building":  # one that is scheduled again has a fault, which is not shown
            shown |= {"ip_addresses": ANYTHING, "fault_message": ANYTHING}
        if server.updated_at is None:
            shown["updated_at"] = ANYTHING
        if (server.task_state or "").startswith("resize") or (server.state == "resized" and server.task_state):
            shown["source_host"] = ANYTHING
        if server.state == "error" and row["source_host"] is not None:
            shown["source_host"] = ANYTHING  # a resize failed, and only its events say which host holds the source
        return shown
