# SPDX-License-Identifier: Apache-2.0
"""``[reconcile]``: how often the live systems are compared, what is repaired, and what stops it."""

from __future__ import annotations

from collections.abc import Iterable

from oslo_config import cfg

from watcher_sync.exceptions import ConfigError

GROUP = "reconcile"

HEAL, OBSERVE = "heal", "observe"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=True,
        help="""
Whether the engine that leads compares the model with the live systems by itself.

False: only what is asked for is compared, one entity at a time, through the API.
""",
    ),
    cfg.FloatOpt(
        "interval",
        default=300,
        min=1,
        mutable=True,
        deprecated_name="db_synchronization_interval",
        deprecated_group="DEFAULT",
        help="""
Seconds between two comparisons of one scope, such as a cluster.

Notifications and watches usually leave nothing to do; this is how long a loss of theirs may stand. Can
be changed by SIGHUP, and counts at once.

Related options: ``jitter``.
""",
    ),
    cfg.FloatOpt(
        "jitter",
        default=0.1,
        min=0,
        max=1,
        mutable=True,
        help="""
What is added to the interval at random, as a fraction of it, so that scopes do not all begin at the same
moment. Can be changed by SIGHUP.
""",
    ),
    cfg.FloatOpt(
        "timeout",
        default=60,
        min=0.1,
        mutable=True,
        help="""
Seconds that one comparison of a scope may take before it counts as failed.

The scope is not begun again until the old comparison has ended, however late. Other scopes do not wait
for it. Can be changed by SIGHUP.
""",
    ),
    cfg.IntOpt(
        "breaker_threshold",
        default=3,
        min=1,
        mutable=True,
        help="""
Failures in a row after which a scope is left alone for a while. Can be changed by SIGHUP.

Related options: ``breaker_reset_timeout``.
""",
    ),
    cfg.FloatOpt(
        "breaker_reset_timeout",
        default=60,
        min=0.1,
        max=3600,
        mutable=True,
        deprecated_name="breaker_time",
        help="""
Seconds that a failing scope is left alone at first. The time doubles with each further failure, up to an
hour, and is this again after a success.

It delays what is due and begins nothing earlier than ``interval`` says. Can be changed by SIGHUP.
""",
    ),
    cfg.IntOpt(
        "max_delete_percent",
        default=30,
        min=0,
        max=100,
        mutable=True,
        help="""
The brake: how many percent of a scope's entities of one kind one comparison may delete.

Where more seem to be gone, and nothing new under the same controller makes up for them, none of that kind is
deleted, and it is logged and measured: a live system that answers with nothing is more often broken than
empty. Until the operator has decided, what is new of that kind is not created either, and no VNF instance of
the scope is synced by the comparison. 100 lets everything be deleted. Can be changed by SIGHUP.
""",
    ),
    cfg.DictOpt(
        "policy",
        default={},
        help="""
What is done about differences, by kind of entity: ``vnf_instance:observe, pod:heal``.

``heal`` writes what is live into the model; ``observe`` only shows the difference as a drift. Kinds that
are not named are healed. What an event tells of a pod or workload is written in any case; a
``vnf_instance`` that is only observed is written when its sync is asked for, and never by itself.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the group's options."""
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTS)]


def policies(conf: cfg.ConfigOpts, kinds: Iterable[str] | None = None) -> dict[str, str]:
    """kind -> heal or observe, for the kinds that are named; all others are healed.

    :param kinds: those that there are; None: whatever is named is taken for one.
    :raises ConfigError: when a value is neither, or a kind does not exist; names it.
    """
    known = None if kinds is None else sorted(kinds)
    for kind, policy in conf.reconcile.policy.items():
        if known is not None and kind not in known:
            raise ConfigError(f"[reconcile] policy: there is no kind {kind!r}; there are {', '.join(known)}")
        if policy not in (HEAL, OBSERVE):
            raise ConfigError(f"[reconcile] policy: {kind} is {policy!r}; it can be {HEAL} or {OBSERVE}")
    return dict(conf.reconcile.policy)
