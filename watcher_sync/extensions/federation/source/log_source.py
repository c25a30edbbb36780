# SPDX-License-Identifier: Apache-2.0
"""The driver ``federation_log``: one source follows the log of one region on NATS JetStream.

Position: the seq in the region's journal, and the sequence of its message in the stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from oslo_config import cfg

from watcher_sync.extensions.federation.source.log_options import LOG_OPTIONS, LogSettings
from watcher_sync.extensions.federation.source.region_source import RegionSource
from watcher_sync.extensions.federation.source.states import RegionCursor
from watcher_sync.sources.base import Emit
from watcher_sync.transports.nats.client_settings import insecure_servers, secret_files

if TYPE_CHECKING:
    from watcher_sync.extensions.federation.source.following import RegionFollower


class FederationLogSource(RegionSource):
    """The driver ``federation_log``."""

    options: ClassVar[list[cfg.Opt]] = LOG_OPTIONS
    insecure_transports = staticmethod(insecure_servers)
    named_files = staticmethod(secret_files)

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf, cursor=cursor)
        self.settings = LogSettings(name, self.group)

    def make_follower(self, emit: Emit, cursor: RegionCursor) -> RegionFollower:
        """What follows the region from a position."""
        # Imported here: most processes only read the options.
        from watcher_sync.extensions.federation.source.log_follower import RegionLogFollower

        return RegionLogFollower(self.settings, emit, cursor, self.conf.reconcile, self.stored_kinds)

    def probe(self) -> None:
        """Ask for the streams of the log."""
        from watcher_sync.extensions.federation.source.region_log import probe_log

        probe_log(self.settings)
