# SPDX-License-Identifier: Apache-2.0
"""The options of a RabbitMQ source, checked.

Those that the driver ``oslo_messaging`` has, too, have the same names and meanings there.
"""

from __future__ import annotations

from typing import Final

from oslo_config import cfg

from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.openstack.source.notifier_options import PUBLISHER_OPTS
from watcher_sync.transports.rabbitmq.broker import GROUP, read_broker
from watcher_sync.wire.json import MAX_SIZE

_PREFETCHED_BATCHES: Final = 12
"""What the engine may have in hand, and two batches more."""
_MAX_PREFETCH: Final = 65_535

COMMON_OPTIONS: Final[list[cfg.Opt]] = [
    cfg.StrOpt(
        "transport_url",
        secret=True,
        help=f"""
The broker, in oslo.messaging's form: ``rabbit://user:password@host:port,user:password@host2:port/virtual_host``.

The options of ``[{GROUP}]`` for TLS, heartbeat and the properties of queues apply. An option may be set for this source
alone in the query of the URL.
""",
    ),
    *PUBLISHER_OPTS,
    cfg.StrOpt(
        "pool",
        default="watcher-sync",
        help="""
Name of the queue of this source. Two engines with the same queue share the messages.

A queue that the driver ``oslo_messaging`` or another listener of oslo.messaging declared as this pool is taken over
with the messages in it.
""",
    ),
    cfg.IntOpt(
        "prefetch",
        min=1,
        max=_MAX_PREFETCH,
        advanced=True,
        help=f"""
Messages that the broker may deliver ahead of their acknowledgement.

Default: {_PREFETCHED_BATCHES} times ``[engine] batch_size``. ``[{GROUP}] rabbit_qos_prefetch_count`` is meant for
RPC, so it counts only in the query of the URL.
Above 64 MiB of unacknowledged messages the source reads no further one, whatever this number is.
""",
    ),
    cfg.FloatOpt(
        "hand_back_after",
        default=600.0,
        min=1,
        advanced=True,
        help="""
Seconds after which the source returns all unacknowledged messages to the queue, because the engine could not commit
them. It consumes again once the engine commits or nacks an event.

It must be well below ``consumer_timeout`` of RabbitMQ (30 minutes by default). The broker closes the channel of a
consumer that holds a message longer.
""",
    ),
    cfg.IntOpt(
        "batch_size", min=1, advanced=True, help="Events that are emitted in one batch. Default: [engine] batch_size."
    ),
    cfg.FloatOpt(
        "poll_timeout",
        default=0.001,
        min=0,
        max=1.0,
        advanced=True,
        help="Seconds that a batch which is not full waits for more messages under load. A lone one is not delayed.",
    ),
    cfg.IntOpt(
        "max_event_size",
        default=MAX_SIZE,
        min=1024,
        advanced=True,
        help="Bytes that one event may have. A larger one goes to quarantine.",
    ),
]

OPTIONS: Final[list[cfg.Opt]] = [
    *COMMON_OPTIONS,
    cfg.StrOpt(
        "queue_type",
        choices=[
            ("classic", "On one node of the cluster."),
            ("quorum", "Replicated and durable; the broker counts the deliveries of each message."),
        ],
        help=f"""
Type of the queue. Default: ``quorum`` if ``[{GROUP}] rabbit_quorum_queue`` is set, else ``classic``.

A quorum queue with a delivery limit drops a message that was returned that often. Each loss of the connection and each
return after ``hand_back_after`` counts. RabbitMQ 4 has a limit of 20 unless a policy says otherwise.
""",
    ),
]


class RabbitMQSettings:
    """The options of one source that each type of queue has, checked.

    :raises ConfigError: naming the option that is wrong.
    """

    def __init__(self, name: str, conf: cfg.ConfigOpts) -> None:
        section = f"source_{name}"
        group = conf[section]
        self.broker = read_broker(section, group.transport_url, conf)
        options = self.broker.options
        self.batch: int = group.batch_size or conf.engine.batch_size
        self.linger: float = group.poll_timeout
        self.prefetch: int = min(
            _MAX_PREFETCH,
            group.prefetch or options["rabbit_qos_prefetch_count"] or _PREFETCHED_BATCHES * conf.engine.batch_size,
        )
        self.hand_back_after: float = group.hand_back_after
        self.max_event_size: int = group.max_event_size
        self.pool: str = group.pool
        self.exchange: str = group.exchange
        self.topics: list[str] = list(group.topics)
        for option in ("pool", "exchange", "topics"):
            if not group[option]:
                raise ConfigError(f"[{section}] {option}: is empty")
