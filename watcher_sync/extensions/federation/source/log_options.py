# SPDX-License-Identifier: Apache-2.0
"""The options of the driver ``federation_log``, and the settings that they give."""

from __future__ import annotations

from typing import Final

from oslo_config import cfg

from watcher_sync.extensions.federation.source.options import SITE_OPTIONS, read_site
from watcher_sync.transports.nats.client_settings import CLIENT_OPTIONS, NatsClientSettings

LOG_OPTIONS: Final[list[cfg.Opt]] = [
    *SITE_OPTIONS,
    *CLIENT_OPTIONS,
    cfg.StrOpt(
        "stream",
        default="watcher-sync",
        help="""
Name of the stream of changes, which an outlet of the region with ``driver = nats_jetstream`` publishes, or of a mirror
of it. The stream of the current model is ``<stream>-model``.
""",
    ),
]


class LogSettings(NatsClientSettings):
    """The options of one source, checked.

    :raises ConfigError: naming the option that is wrong.
    """

    def __init__(self, name: str, group: cfg.ConfigOpts.GroupAttr) -> None:
        super().__init__(f"source_{name}", group)
        self.check_name("stream")
        self.site = read_site(name, group)
        self.stream: str = group.stream
