# SPDX-License-Identifier: Apache-2.0
"""The requests of one session: each passes the gate of its host, while the lease of its shard holds."""

from __future__ import annotations

from collections.abc import Mapping

from watcher_sync.webhooks.handshake import validate
from watcher_sync.webhooks.hosts import HostGate
from watcher_sync.webhooks.live import Asking, Live, Outgoing, Work
from watcher_sync.webhooks.parts import Parts
from watcher_sync.webhooks.planner import Planner
from watcher_sync.webhooks.tasks import Tasks
from watcher_sync.wire.callback_urls import host_of
from watcher_sync.wire.standard_webhooks import headers


class Requests:
    """Deliveries and requests for consent, from their admission to their result. For the thread of the event loop."""

    def __init__(self, parts: Parts, planner: Planner, owned: Mapping[int, int], tasks: Tasks) -> None:
        """:param owned: the shards of this worker now."""
        self._parts = parts
        self._planner = planner
        self._owned = owned
        self._tasks = tasks
        self.gate: HostGate[Work] = HostGate(
            self._start,
            per_host=parts.connections_per_host,
            total=parts.connections,
            monotonic=parts.clock.monotonic,
        )
        self._waiting: list[Work] = []
        """What is due, and waits until the lease is renewed."""

    def admit_waiting(self) -> None:
        """Start what became due, and admit what waited for the lease."""
        self.gate.tick()
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            self.admit(work)

    def admit(self, work: Work) -> None:
        if not self._holds(work.live):
            self._waiting.append(work)
            return
        self.gate.add(host_of(work.live.subscription.callback_url), work)

    def readmit_moved(self) -> None:
        """Have what waits for a host wait for the one of the present callback; forget what is not to be sent."""
        for work in self.gate.take(
            lambda host, work: not self._wants(work) or host_of(work.live.subscription.callback_url) != host
        ):
            if self._wants(work):
                self.admit(work)
            else:
                self._forget(work)

    def _wants(self, work: Work) -> bool:
        """Whether it is still to be sent: its subscription may have been deleted, suspended or rewritten."""
        return self._planner.asks(work.live) if isinstance(work, Asking) else self._planner.wants(work)

    def _forget(self, work: Work) -> None:
        if isinstance(work, Asking):
            work.live.is_asking = False
        else:
            work.is_sending = False

    def _holds(self, live: Live) -> bool:
        """Whether a subscription's deliveries may be sent now, as they were loaded or planned here."""
        token = self._owned.get(live.subscription.shard)
        return token is not None and self._parts.leases.holds(live.subscription.shard, token)

    def _start(self, host: str, work: Work) -> None:
        self._tasks.spawn(self._work(host, work))

    async def _work(self, host: str, work: Work) -> None:
        """Make one request to a host, unless its subscription changed while it waited."""
        if not self._wants(work):
            self._forget(work)
            self.gate.done(host, answered=None)
        elif host_of(work.live.subscription.callback_url) != host:
            self.gate.done(host, answered=None)
            self.admit(work)
        elif isinstance(work, Asking):
            await self._ask(host, work.live)
        else:
            await self._attempt(host, work)

    async def _attempt(self, host: str, outgoing: Outgoing) -> None:
        """Send a delivery once, and record the result."""
        live = outgoing.live
        answered: bool | None = False
        ended = True
        live.sending += 1
        url = live.subscription.callback_url
        try:
            attempt = await self._parts.sender.post(
                url,
                self._headers(outgoing),
                outgoing.delivery.body,
                may_send=lambda: self._holds(live) and not self._parts.is_stopping(),
            )
            answered = None if attempt.not_sent else 0 < attempt.code < 500
            ended = attempt.ended
        finally:
            live.sending -= 1
            self.gate.done(host, answered=answered, ended=ended)
        self._parts.stats.count(attempt)
        self._planner.attempted(outgoing, attempt, url)
        self._parts.wake.set()

    async def _ask(self, host: str, live: Live) -> None:
        """Ask a receiver for its consent, and record the answer."""
        url = live.subscription.callback_url
        answered, ended = False, True
        try:
            grant = await validate(self._parts.sender, url, origin=self._parts.settings.origin, rate=None)
            answered, ended = 0 < grant.attempt.code < 500, grant.attempt.ended
        finally:
            self.gate.done(host, answered=answered, ended=ended)
        self._planner.answered(live, url, grant)
        self._parts.wake.set()

    def _headers(self, outgoing: Outgoing) -> dict[str, str]:
        now = self._parts.clock.now()
        secrets = [secret for secret, until in outgoing.live.secrets if until is None or until > now]
        delivery = outgoing.delivery
        signed = headers(secrets, delivery.webhook_id, int(now.timestamp()), delivery.body)
        return {"Content-Type": delivery.content_type, **signed}
