# SPDX-License-Identifier: Apache-2.0
"""The options of an outlet that publishes on JetStream, checked."""

from __future__ import annotations

import re
from typing import Final

import msgspec
from oslo_config import cfg

from watcher_sync.transports.nats.client_settings import CLIENT_OPTIONS, NatsClientSettings

MODEL_SUFFIX: Final = "-model"
"""What the name of the stream with the current model has more."""

_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")

OPTIONS: Final[list[cfg.Opt]] = [
    *CLIENT_OPTIONS,
    cfg.StrOpt(
        "stream",
        default="watcher-sync",
        help="""
Name of the stream of changes. It contains one partition. The stream of the current model is ``<stream>-model``.

Related options: ``partition``, ``subject_prefix``, ``stream_mode``.
""",
    ),
    cfg.StrOpt(
        "subject_prefix",
        default="watcher-sync",
        help="""
First tokens of all subjects: ``<subject_prefix>.<partition>.<kind>.<id>``.
""",
    ),
    cfg.StrOpt(
        "stream_mode",
        default="verify",
        choices=[
            ("verify", "Both streams must exist and be as this driver needs them."),
            ("create", "Create a stream that does not exist. An existing stream is verified, and never changed."),
        ],
        help="What to do if a stream does not exist.",
    ),
    cfg.IntOpt(
        "replicas",
        default=1,
        min=1,
        max=5,
        help="Servers that store each message. Used when a stream is created; 3 in production.",
    ),
    cfg.IntOpt(
        "max_age",
        default=604_800,
        min=0,
        help="""
Seconds after which the server discards a change. 0: never. Used when the stream is created.

A reader that was away for longer starts from the current model. That has no limit of age, but where the server has
times to live for messages, a deletion leaves both streams after this time.
""",
    ),
    cfg.IntOpt(
        "max_bytes",
        default=0,
        min=0,
        advanced=True,
        help="Bytes above which the server discards the oldest changes. 0: no limit. Used when the stream is created.",
    ),
    cfg.FloatOpt(
        "timeout",
        default=10.0,
        min=0.5,
        max=300,
        advanced=True,
        help="Seconds in which the server must have stored what is published together, a few hundred changes.",
    ),
]


class LogStreamSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The two streams as the configuration wants them."""

    changes: str
    model: str
    subjects: str
    """What the stream of changes collects."""
    create: bool
    replicas: int
    max_age: int
    max_bytes: int


class JetStreamOutletSettings(NatsClientSettings):
    """The options of one outlet, checked.

    :raises ConfigError: naming the option that is wrong.
    """

    def __init__(self, name: str, group: cfg.ConfigOpts.GroupAttr) -> None:
        super().__init__(f"outlet_{name}", group)
        self.check_name("stream")
        if not _PREFIX.fullmatch(group.subject_prefix or ""):
            raise self.wrong("subject_prefix", "is no NATS subject of letters, digits, _ and - without wildcards")
        self.timeout: float = group.timeout
        self.partition: str = group.partition
        self.prefix = f"{group.subject_prefix}.{group.partition}"
        self.streams = LogStreamSpec(
            changes=group.stream,
            model=group.stream + MODEL_SUFFIX,
            subjects=f"{self.prefix}.>",
            create=group.stream_mode == "create",
            replicas=group.replicas,
            max_age=group.max_age,
            max_bytes=group.max_bytes,
        )
