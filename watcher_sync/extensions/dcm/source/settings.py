# SPDX-License-Identifier: Apache-2.0
"""The options of a JetStream source, checked."""

from __future__ import annotations

import re
from typing import Final

from oslo_config import cfg

from watcher_sync.extensions.dcm.source.cursor import stream_id
from watcher_sync.extensions.dcm.source.stream import ConsumerSpec
from watcher_sync.transports.nats.client_settings import CLIENT_OPTIONS, NatsClientSettings
from watcher_sync.wire.json import MAX_SIZE

OPEN_REQUESTS: Final = 2
"""Requests for a batch that are open at the same time."""

_MIN_DELIVERIES_TO_ISOLATE: Final = 4
"""Half of fewer deliveries would isolate messages that were interrupted once."""

_SUBJECT: Final = re.compile(r"[^\s.]+(\.[^\s.]+)*")

OPTIONS: Final[list[cfg.Opt]] = [
    *CLIENT_OPTIONS,
    cfg.StrOpt(
        "stream",
        default="dcm-status",
        help="""
Name of the stream to read.

Related options: ``stream_mode``, ``subject``, ``domain``.
""",
    ),
    cfg.StrOpt(
        "subject",
        default="dcm.*",
        help="""
Subjects to read of the stream, with NATS wildcards. ``dcm.*`` is exactly two words.
""",
    ),
    cfg.StrOpt(
        "durable",
        default="watcher-sync",
        help="""
Name of the durable consumer, which the source creates if it does not exist. It remembers what was acknowledged.

Engines with the same durable share the messages. Never name another program's consumer, such as DCM's
``service-provider-manager``: each message goes to one reader only.
""",
    ),
    cfg.StrOpt(
        "stream_mode",
        default="verify",
        choices=[
            ("verify", "The stream belongs to another program: wait until it exists, and create only the consumer."),
            ("create", "Create the stream, too, if it does not exist. An existing stream is never changed."),
        ],
        advanced=True,
        help="""
What to do if the stream does not exist.
""",
    ),
    cfg.IntOpt(
        "batch",
        default=500,
        min=1,
        max=10_000,
        advanced=True,
        help="""
Messages that one request to the server asks for. Two requests are open at a time, so the engine's memory may
hold twice as many.

Related options: ``max_ack_pending``.
""",
    ),
    cfg.IntOpt(
        "max_bytes",
        default=8_388_608,
        min=65_536,
        advanced=True,
        help="""
Bytes that one request to the server asks for. Two requests are open at a time.

A server closes a connection for which it has too many bytes to send (its ``max_pending``, 64 MB by default). So the
value must be well below half of that. It is raised to the largest message that the server accepts.

Related options: ``batch``, ``max_event_size``.
""",
    ),
    cfg.FloatOpt(
        "linger",
        default=0.002,
        min=0,
        max=1,
        advanced=True,
        help="""
Seconds that a batch which is not full waits for more messages under load. A lone message is never delayed.
""",
    ),
    cfg.FloatOpt(
        "ack_wait",
        default=30.0,
        min=0.5,
        max=3600,
        advanced=True,
        help="""
Seconds after which the server delivers a message again that was not acknowledged.

The source extends this time for messages in flight, so only the messages of a dead engine wait so long. It must be
longer than ``[engine] batch_linger`` and a transaction. An existing consumer may have more, not less.
""",
    ),
    cfg.IntOpt(
        "max_ack_pending",
        default=10_000,
        min=1,
        advanced=True,
        help="""
Messages that may be unacknowledged at once, for all engines that share the durable. The consumer is created with
this value. An existing consumer may have less, but not less than twice ``batch``.
""",
    ),
    cfg.IntOpt(
        "max_deliveries",
        default=10,
        min=0,
        advanced=True,
        help="""
Deliveries after which a message goes to quarantine, because it may end the engine each time. 0: no limit.

When an engine is killed, the server counts a delivery for each message in flight. So above half of this number, if it
is 4 or more, a message is isolated: the source emits it when nothing else is in flight.
""",
    ),
    cfg.IntOpt(
        "max_event_size",
        default=MAX_SIZE,
        min=1024,
        advanced=True,
        help="Bytes that one event may have. A larger one goes to quarantine.",
    ),
]


class JetStreamSettings(NatsClientSettings):
    """The options of one source, checked.

    :raises ConfigError: naming the option that is wrong.
    """

    def __init__(self, name: str, conf: cfg.ConfigOpts) -> None:
        section = f"source_{name}"
        group = conf[section]
        super().__init__(section, group)
        self.batch: int = group.batch
        self.max_bytes: int = group.max_bytes
        self.linger: float = group.linger
        self.max_event_size: int = group.max_event_size
        self.max_deliveries: int = group.max_deliveries
        self.isolation_limit: int = (
            group.max_deliveries // 2 if group.max_deliveries >= _MIN_DELIVERIES_TO_ISOLATE else 0
        )
        self.consumer = ConsumerSpec(
            stream=group.stream,
            subject=group.subject,
            durable=group.durable,
            create=group.stream_mode == "create",
            ack_wait=group.ack_wait,
            max_ack_pending=group.max_ack_pending,
            needed_pending=OPEN_REQUESTS * group.batch,
            max_deliveries=group.max_deliveries,
        )
        self.stream_id = stream_id(group.stream, group.domain)
        self.pull_subject = f"{self.api_prefix}.CONSUMER.MSG.NEXT.{group.stream}.{group.durable}"
        self._check_names()
        self._check_amounts(conf)

    def _check_names(self) -> None:
        group = self._group
        for option in ("stream", "durable"):
            self.check_name(option)
        if not _SUBJECT.fullmatch(group.subject or ""):
            raise self.wrong("subject", "is no NATS subject")

    def _check_amounts(self, conf: cfg.ConfigOpts) -> None:
        group = self._group
        if group.max_ack_pending < OPEN_REQUESTS * group.batch:
            raise self.wrong("max_ack_pending", f"is {group.max_ack_pending}, less than {OPEN_REQUESTS} x batch")
        if group.ack_wait <= group.linger + conf.engine.batch_linger:
            raise self.wrong("ack_wait", "is not longer than linger and [engine] batch_linger")
