# SPDX-License-Identifier: Apache-2.0
"""Writes the liveness of hosts, and logs each change once.

A change is decided again inside the transaction that writes it, on the rows as they are then. An unchanged host costs
no transaction. For any thread.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from oslo_log import log as logging

from watcher_sync.events import Event
from watcher_sync.extensions.openstack.kinds import ComputeNode
from watcher_sync.extensions.openstack.liveness.rules import by_service
from watcher_sync.model.changes import Change, Outcome, Upsert
from watcher_sync.model.model import Snapshot
from watcher_sync.model.view import View
from watcher_sync.reconcile.base import Context, FieldDifference
from watcher_sync.reconcile.drift import plain
from watcher_sync.storage.database.database import retried

LOG = logging.getLogger(__name__)

_MAX_HOSTS: Final = 200
"""Hosts of one transaction."""

Rule = Callable[[ComputeNode], Upsert | None]
"""Returns the change of a host as it is now; None if there is none."""


class LivenessWriter:
    """Applies rules to hosts and writes the resulting changes. The reconcilers and services of a process share one."""

    def __init__(self, context: Context) -> None:
        self._context = context
        # Guards _confirmed.
        self._lock = threading.Lock()
        self._confirmed: set[str] = set()

    def on_services(
        self,
        states: Mapping[str, bool],
        view: View,
        *,
        at: datetime.datetime,
        source: str,
        dry_run: bool = False,
    ) -> list[FieldDifference]:
        """Compare the states of compute services with the model, and write the differences.

        Hosts that the model does not have are skipped, so create them first. Leave out services that are forced down:
        Nova reports those as down whatever their nova-compute does.

        :param states: host -> whether Nova reports its nova-compute as up.
        :param view: one state of the model.
        :param at: when the list was requested, aware UTC.
        :param source: recorded as the source of the changes.
        :param dry_run: write nothing.
        :returns: the differences, field ``liveness`` only.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        with self._lock:
            self._confirmed.update(host for host, up in states.items() if up)

        def rule(node: ComputeNode) -> Upsert | None:
            return by_service(node, up=states[node.id], at=at, last_heard=self.last_heard(node))

        nodes = [node for host in states if (node := _node(view, host)) is not None]
        changes = [(node, change) for node in nodes if (change := rule(node)) is not None]
        if not dry_run:
            self.write([node.id for node, _ in changes], rule, at=at, source=source)
        return [
            FieldDifference(
                kind="compute_node",
                entity_id=node.id,
                field="liveness",
                model_value=plain(node.liveness),
                live_value=change.facets["liveness"]["liveness"],
                policy="heal",
            )
            for node, change in changes
        ]

    def take_confirmed(self) -> set[str]:
        """Return the hosts that Nova has reported as up since the last call."""
        with self._lock:
            confirmed, self._confirmed = self._confirmed, set()
            return confirmed

    def last_heard(self, node: ComputeNode) -> datetime.datetime | None:
        """Return when a host published its last event, by the table or by the memory of this process."""
        view = self._context.view()
        seen = view.last_seen("compute_node", node.id) if isinstance(view, Snapshot) else None
        times = [time for time in (node.last_heard, seen) if time is not None]
        return max(times, default=None)

    def write(self, hosts: Sequence[str], rule: Rule, *, at: datetime.datetime, source: str) -> int:
        """Apply a rule to hosts, in one transaction per 200 hosts, and write what it returns.

        :returns: the number of hosts that changed.
        :raises DatabaseUnavailable: the database is unavailable; earlier transactions are written.
        """
        written = 0
        for begin in range(0, len(hosts), _MAX_HOSTS):
            portion = hosts[begin : begin + _MAX_HOSTS]
            changed: dict[str, Upsert] = {}
            outcomes = self._write_portion(portion, rule, at, source, changed)
            for host, outcome in zip(portion, outcomes, strict=True):
                if outcome is Outcome.APPLIED:
                    written += 1
                    _log(host, changed[host])
        return written

    @retried
    def _write_portion(
        self, portion: Sequence[str], rule: Rule, at: datetime.datetime, source: str, changed: dict[str, Upsert]
    ) -> list[Outcome]:
        changed.clear()
        with self._context.writes.begin() as cycle:
            return cycle.write_all([self._write(host, rule, at, source, changed) for host in portion])

    def _write(
        self, host: str, rule: Rule, at: datetime.datetime, source: str, changed: dict[str, Upsert]
    ) -> tuple[Event, Callable[[View], Iterable[Change]]]:
        event = Event(id=f"{host}/liveness/{at.isoformat()}", type="compute_node.liveness", source=source, time=at)

        def make(view: View) -> Iterable[Change]:
            node = _node(view, host)
            change = rule(node) if node is not None else None
            if change is None:
                return ()
            changed[host] = change
            return (change,)

        return event, make


def _node(view: View, host: str) -> ComputeNode | None:
    """The host, unless its compute service was deleted."""
    node = view.get("compute_node", host)
    return node if isinstance(node, ComputeNode) and not node.gone else None


def _log(host: str, change: Upsert) -> None:
    reason = change.facets["liveness"]["liveness_reason"]
    if reason is None:
        LOG.info("compute_node %s: up", host)
    else:
        LOG.warning("compute_node %s: down: %s", host, reason)
