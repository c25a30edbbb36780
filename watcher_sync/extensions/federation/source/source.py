# SPDX-License-Identifier: Apache-2.0
"""The driver ``federation``: one source follows one region by its API and its watch stream.

Position: the sequence in the region's journal.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from oslo_config import cfg

from watcher_sync.conf.findings import NamedFile, host_in, is_local, is_remote_http, place
from watcher_sync.exceptions import SourceError
from watcher_sync.extensions.federation.source.options import OPTIONS, read_settings
from watcher_sync.extensions.federation.source.region_source import RegionSource
from watcher_sync.extensions.federation.source.states import RegionCursor
from watcher_sync.sources.base import Emit

if TYPE_CHECKING:
    from watcher_sync.extensions.federation.source.following import RegionFollower


class FederationSource(RegionSource):
    """The driver ``federation``."""

    options: ClassVar[list[cfg.Opt]] = OPTIONS

    @staticmethod
    def insecure_transports(conf: cfg.ConfigOpts, section: str) -> Iterator[str]:
        """Findings about the region's API, its Keystone and its watch stream without TLS."""
        group = conf[section]
        for option in ("endpoint", "auth_url"):
            if is_remote_http(group[option] or ""):
                where = place(conf, option, section)
                yield f"{where}: tokens or passwords cross the network without TLS; use https://."
        endpoint = urllib.parse.urlsplit(group.endpoint or "")
        host = host_in(group.address or endpoint.netloc)
        has_tls = endpoint.scheme == "https" if group.stream_tls is None else group.stream_tls
        if host and not has_tls and not is_local(host):
            decides = next(option for option in ("stream_tls", "address", "endpoint") if group[option] is not None)
            where = place(conf, decides, section)
            yield f"{where}: tokens and changes for {host} cross the network without TLS; set stream_tls = true."

    @staticmethod
    def named_files(conf: cfg.ConfigOpts, section: str) -> list[NamedFile]:
        """The key of our client certificate."""
        return [NamedFile(section, "keyfile", conf[section].keyfile)]

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf, cursor=cursor)
        self.settings = read_settings(name, self.group)

    def make_follower(self, emit: Emit, cursor: RegionCursor) -> RegionFollower:
        """What follows the region from a position."""
        # Imported here: gRPC loads for long, and most processes only read the options.
        from watcher_sync.extensions.federation.source.follower import Follower
        from watcher_sync.extensions.federation.source.region import Region

        return Follower(self.settings, Region(self.settings, self.group), emit, cursor, self.conf.reconcile)

    def probe(self) -> None:
        """Read the kinds of the region."""
        from watcher_sync.client import ClientError
        from watcher_sync.extensions.federation.source.region import Region

        try:
            Region(self.settings, self.group).kinds()
        except ClientError as exc:
            raise SourceError(str(exc)) from None
