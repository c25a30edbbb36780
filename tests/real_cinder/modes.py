# SPDX-License-Identifier: Apache-2.0
"""Installations that follow Cinder: with notifications, and with reconciliation, too."""

from __future__ import annotations

import re

import kombu

from tests.real_cinder.cloud import EXCHANGE, TOPIC, Cloud
from tests.real_cinder.truth import KINDS
from tests.real_nova.modes import Follower
from tests.real_nova.recording import amqp_url, bind_queue


class CinderFollower(Follower):
    """One installation with the plugin."""

    scopes = ("cinder",)
    kinds = KINDS
    counted = re.compile(r'^watcher_sync_events_total\{[^}]*source="cinder"[^}]*\} ([0-9.e+]+)', re.MULTILINE)

    def _options(self, cloud: Cloud) -> dict[str, object]:
        options: dict[str, object] = {
            "engine.enabled_sources": "cinder",
            "source_cinder.driver": "rabbitmq",
            "source_cinder.transport_url": cloud.transport_url,
            "source_cinder.exchange": EXCHANGE,
            "source_cinder.topics": TOPIC,
            "source_cinder.pool": self.pool,
            "monitoring.port": self._port,
            "monitoring.status_interval": 0.5,
            # The engine's own runs would hide what each step needs.
            "reconcile.enabled": False,
        }
        if self.reconciles:
            options |= {f"reconciler_cinder.{name}": value for name, value in cloud.login.items()}
            options |= {"reconcile.max_delete_percent": 100}
        return options

    def bind(self, cloud: Cloud) -> None:
        """Create the queue of the engine, so that it has everything that is published from now on."""
        with kombu.Connection(amqp_url(cloud.transport_url)) as connection:
            bind_queue(connection, self.pool, EXCHANGE, TOPIC)
