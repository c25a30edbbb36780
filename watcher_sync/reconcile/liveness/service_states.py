# SPDX-License-Identifier: Apache-2.0
"""Asks Nova's API which compute services are up, apart from the runs of the reconciler ``nova``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from watcher_sync.reconcile.nova.listing import NovaApi
from watcher_sync.reconcile.openstack import OpenStackCloud

_TIMEOUT_SECONDS: Final = 10.0


class ServiceStates:
    """One request a call. For one thread."""

    def __init__(self, cloud: OpenStackCloud) -> None:
        self._cloud = cloud

    def __call__(self) -> Mapping[str, bool]:
        """Return host -> whether its nova-compute is up, without those that are forced down.

        :raises CloudError: the list cannot be read.
        """
        services = NovaApi(self._cloud.client(time.monotonic() + _TIMEOUT_SECONDS)).services()
        return {host: one.state == "up" for host, one in services.items() if not one.forced_down}
