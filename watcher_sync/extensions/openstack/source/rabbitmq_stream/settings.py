# SPDX-License-Identifier: Apache-2.0
"""The options of a source that reads a stream: those of the driver ``rabbitmq`` without ``queue_type``, and its own."""

from __future__ import annotations

from typing import Any, Final

from oslo_config import cfg

from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.openstack.source.rabbitmq.settings import COMMON_OPTIONS, RabbitMQSettings
from watcher_sync.extensions.openstack.source.rabbitmq_stream.cursor import Start, read_start
from watcher_sync.sources.cursors import FIRST

OPTIONS: Final[list[cfg.Opt]] = [
    *COMMON_OPTIONS,
    cfg.StrOpt(
        "stream_start",
        default=FIRST,
        advanced=True,
        help="""
Where a stream is read from while no position is stored: ``first``, ``next`` (only what is published from now on), an
offset, or an ISO 8601 time, which is UTC unless it has another offset.

With ``next``, what is published while the engine is down is not read before the first event is committed.

Related options: ``watcher-sync-manage source rewind`` changes a stored position.
""",
    ),
    cfg.StrOpt(
        "stream_max_age",
        regex=r"^[1-9][0-9]*[YMDhms]$",
        help="""
How long the broker stores what is in the stream, as RabbitMQ's ``x-max-age`` has it: a number and one of Y, M, D, h,
m, s, such as ``7D``. Default: without a limit.

It applies when the source declares the stream. The properties of an existing stream are not changed.
""",
    ),
    cfg.IntOpt(
        "stream_max_bytes",
        min=1,
        help="""
Bytes above which the broker removes the oldest segment of the stream (``x-max-length-bytes``). Default: without a
limit.

It applies when the source declares the stream.
""",
    ),
    cfg.IntOpt(
        "stream_segment_bytes",
        min=1,
        advanced=True,
        help="""
Bytes of one segment of the stream (``x-stream-max-segment-size-bytes``). The broker removes whole segments only.
Default: the broker's, 500 MB.

It applies when the source declares the stream.
""",
    ),
]


class RabbitMQStreamSettings(RabbitMQSettings):
    """The options of one source, checked.

    :raises ConfigError: naming the option that is wrong.
    """

    def __init__(self, name: str, conf: cfg.ConfigOpts) -> None:
        super().__init__(name, conf)
        section = f"source_{name}"
        group = conf[section]
        try:
            self.start: Start = read_start(group.stream_start)
        except ValueError as exc:
            raise ConfigError(f"[{section}] stream_start: {exc}") from None
        limits = {
            "x-max-age": group.stream_max_age,
            "x-max-length-bytes": group.stream_max_bytes,
            "x-stream-max-segment-size-bytes": group.stream_segment_bytes,
        }
        self.retention: dict[str, Any] = {name: value for name, value in limits.items() if value}
