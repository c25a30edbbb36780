# SPDX-License-Identifier: Apache-2.0
"""The size of hosts from the inventory of the site, which answers ``[{"name": ..., "cores": ..., "memory": ...}]``."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import ClassVar

import msgspec
import requests
from oslo_config import cfg

from watcher_sync.reconcile.capacity_provider import CapacityError, CapacityProvider, HostCapacity


class Machine(msgspec.Struct):
    """The fields of one machine that are used."""

    name: str
    cores: int | None = None
    memory: int | None = None
    """MiB."""


class RackProvider(CapacityProvider):
    """Asks the inventory for all machines at once."""

    name: ClassVar[str] = "rack"
    options: ClassVar[list[cfg.Opt]] = [cfg.URIOpt("url", help="Address of the inventory.")]

    def capacities(self, deadline: float) -> Iterable[HostCapacity]:
        url, seconds = self.conf.capacity_provider_rack.url, deadline - time.monotonic()
        if not url:
            raise CapacityError("[capacity_provider_rack] url is not set")
        try:
            answer = requests.get(url, timeout=seconds)
            answer.raise_for_status()
            machines = msgspec.json.decode(answer.content, type=list[Machine])
        except (requests.RequestException, msgspec.MsgspecError) as exc:
            raise CapacityError(f"the inventory cannot be read: {exc}") from exc
        return [HostCapacity(host=each.name, vcpus=each.cores, memory_mb=each.memory) for each in machines]
