# SPDX-License-Identifier: Apache-2.0
"""The requests of one session: each passes the gate of its host, while the lease of its shard holds."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from watcher_sync.extensions.webhooks.deliveries import Outgoing
from watcher_sync.extensions.webhooks.hosts import HostGate
from watcher_sync.extensions.webhooks.planner import Planner
from watcher_sync.extensions.webhooks.resources import WorkerResources
from watcher_sync.extensions.webhooks.standard_webhooks import headers
from watcher_sync.extensions.webhooks.subscription import Subscription
from watcher_sync.wire.callback_urls import host_of


class DeliveryRequests:
    """Deliveries, from their admission to their result. For the thread of the event loop."""

    def __init__(
        self,
        resources: WorkerResources,
        planner: Planner,
        owned: Mapping[int, int],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """:param owned: the shards of this worker now.

        :param spawn: begins a task of the session.
        """
        self._resources = resources
        self._planner = planner
        self._owned = owned
        self._spawn = spawn
        self.gate: HostGate[Outgoing] = HostGate(
            self._start,
            per_host=resources.settings.connections_per_host,
            total=resources.settings.max_connections,
            monotonic=resources.clock.monotonic,
        )
        self._waiting: list[Outgoing] = []
        """What is due, and waits until the lease is renewed."""

    def admit_waiting(self) -> None:
        """Start what became due, and admit what waited for the lease."""
        self.gate.tick()
        waiting, self._waiting = self._waiting, []
        for outgoing in waiting:
            self.admit(outgoing)

    def admit(self, outgoing: Outgoing) -> None:
        """Have a delivery sent as soon as its host has room and the lease of its shard holds."""
        if not self._holds(outgoing.subscription):
            self._waiting.append(outgoing)
            return
        self.gate.add(_host_of(outgoing), outgoing)

    def readmit_moved(self) -> None:
        """Have what waits for a host wait for the one of the present callback; forget what is not to be sent."""
        wants = self._planner.wants
        for outgoing in self.gate.take(lambda host, each: not wants(each) or _host_of(each) != host):
            if wants(outgoing):
                self.admit(outgoing)
            else:
                outgoing.is_sending = False

    def _holds(self, subscription: Subscription) -> bool:
        """Whether a subscription's deliveries may be sent now, as they were loaded or planned here."""
        shard = subscription.row.shard
        token = self._owned.get(shard)
        return token is not None and self._resources.leases.holds(shard, token)

    def _start(self, host: str, outgoing: Outgoing) -> None:
        self._spawn(self._send(host, outgoing))

    async def _send(self, host: str, outgoing: Outgoing) -> None:
        """Make one request to a host, unless its subscription changed while it waited."""
        if not self._planner.wants(outgoing):
            outgoing.is_sending = False
            self.gate.done(host, answered=None)
        elif _host_of(outgoing) != host:
            self.gate.done(host, answered=None)
            self.admit(outgoing)
        else:
            await self._attempt(host, outgoing)

    async def _attempt(self, host: str, outgoing: Outgoing) -> None:
        """Send a delivery once, and record the result."""
        subscription = outgoing.subscription
        answered: bool | None = False
        ended = True
        subscription.sending += 1
        url = subscription.row.callback_url
        try:
            attempt = await self._resources.sender.post(
                url,
                self._headers(outgoing),
                outgoing.delivery.body,
                may_send=lambda: self._holds(subscription) and not self._resources.is_stopping(),
            )
            answered = None if attempt.not_sent else 0 < attempt.code < 500
            ended = attempt.ended
        finally:
            subscription.sending -= 1
            self.gate.done(host, answered=answered, ended=ended)
        self._resources.stats.count(attempt)
        self._planner.attempted(outgoing, attempt, url)
        self._resources.wake.set()

    def _headers(self, outgoing: Outgoing) -> dict[str, str]:
        now = self._resources.clock.now()
        secrets = [secret for secret, until in outgoing.subscription.secrets if until is None or until > now]
        delivery = outgoing.delivery
        signed = headers(secrets, delivery.webhook_id, int(now.timestamp()), delivery.body)
        return {"Content-Type": delivery.content_type, **signed}


def _host_of(outgoing: Outgoing) -> str:
    """The host of the present callback."""
    return host_of(outgoing.subscription.row.callback_url)
