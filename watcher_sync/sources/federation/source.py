# SPDX-License-Identifier: Apache-2.0
"""The driver ``federation``: one source follows one region by its API and its watch stream.

Position: the sequence in the region's journal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from oslo_config import cfg

from watcher_sync.exceptions import SourceError
from watcher_sync.sources.base import Emit
from watcher_sync.sources.federation.options import OPTIONS, read_settings
from watcher_sync.sources.federation.region_source import RegionSource
from watcher_sync.sources.federation.states import RegionCursor

if TYPE_CHECKING:
    from watcher_sync.sources.federation.following import RegionFollower


class FederationSource(RegionSource):
    """The driver ``federation``."""

    options: ClassVar[list[cfg.Opt]] = OPTIONS

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf, cursor=cursor)
        self.settings = read_settings(name, self.group)

    def make_follower(self, emit: Emit, cursor: RegionCursor) -> RegionFollower:
        """What follows the region from a position."""
        # Imported here: gRPC loads for long, and most processes only read the options.
        from watcher_sync.sources.federation.follower import Follower
        from watcher_sync.sources.federation.region import Region

        return Follower(self.settings, Region(self.settings, self.group), emit, cursor, self.conf.reconcile)

    def probe(self) -> None:
        """Read the kinds of the region."""
        from watcher_sync.client import ClientError
        from watcher_sync.sources.federation.region import Region

        try:
            Region(self.settings, self.group).kinds()
        except ClientError as exc:
            raise SourceError(str(exc)) from None
