# SPDX-License-Identifier: Apache-2.0
"""``[outlets]`` and the options that all ``[outlet_<name>]`` have: the logs on which the journal is published."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "outlets"

OUTLETS = "watcher_sync.outlets"
"""The entry point group of the drivers."""

OPTS: list[cfg.Opt] = [
    cfg.ListOpt(
        "enabled",
        default=[],
        help="""
Names of the outlets that publish the journal on a log. Each has its options in ``[outlet_<name>]``.

``webhook`` and ``watch`` are no such outlets: they have the sections ``[outlet_webhook]`` and ``[outlet_watch]``.
""",
    ),
    cfg.PortOpt(
        "monitoring_port",
        default=0,
        help="""
TCP port on which the process that publishes serves ``/healthz`` and ``/metrics``. 0 disables the server.

Related options: ``[monitoring] host``.
""",
    ),
]

OUTLET_OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "driver",
        help="The driver of this outlet: the name of an entry point in ``watcher_sync.outlets``.",
    ),
    cfg.StrOpt(
        "partition",
        default="default",
        regex=r"^[A-Za-z0-9_-]{1,64}$",
        help="""
Name of the partition that this database is, in the subjects, keys and messages of the log.

Two databases that publish on the same log must not have the same name.
""",
    ),
    cfg.ListOpt("kinds", default=[], help="Entity kinds to publish, such as ``instance,pod``. Default: all."),
    cfg.ListOpt(
        "projects", default=[], help="Ids of projects whose entities are published. Default: those of all, or of none."
    ),
    cfg.ListOpt(
        "fields",
        default=[],
        advanced=True,
        help="""
Fields whose changes are published. An update of other fields only is left out; creations and deletions are published.
Default: all.
""",
    ),
    cfg.StrOpt(
        "format",
        default="cloudevents",
        choices=[
            ("cloudevents", "A CloudEvents 1.0 document with the row of the journal and the whole entity."),
            ("debezium", "An envelope as Debezium writes it: op, before, after, source."),
        ],
        advanced=True,
        help="The format of a message.",
    ),
]
"""Common to all outlets."""
