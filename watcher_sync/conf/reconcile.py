# SPDX-License-Identifier: Apache-2.0
"""``[reconcile]``: intervals, limits and policies of the comparison with the live systems."""

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
        advanced=True,
        help="""
Whether the leading engine compares the model with the live systems periodically.

False: a comparison runs only on request, through the API or ``watcher-sync-manage reconcile``.
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

Notifications and watches usually leave no difference. If one is lost, the model may be wrong for up to this time.
A SIGHUP applies a new value at once.

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
Maximum random addition to ``interval``, as a fraction of it.

It prevents all scopes from starting their comparisons at the same moment. A SIGHUP applies a new value.

Related options: ``interval``.
""",
    ),
    cfg.FloatOpt(
        "timeout",
        default=60,
        min=0.1,
        mutable=True,
        help="""
Seconds after which a comparison of a scope counts as failed.

The next comparison of the scope waits until the late one has ended. Other scopes do not wait for it. A SIGHUP applies
a new value.
""",
    ),
    cfg.IntOpt(
        "breaker_threshold",
        default=3,
        min=1,
        mutable=True,
        advanced=True,
        help="""
Number of consecutive failures after which a scope counts as failing: its circuit breaker is open.

The metric ``breaker_open`` and the log say so, and the scope is compared less often than ``interval`` says if its
pauses are longer. A SIGHUP applies a new value.

Related options: ``breaker_reset_timeout``.
""",
    ),
    cfg.FloatOpt(
        "breaker_reset_timeout",
        default=60,
        min=0.1,
        max=3600,
        mutable=True,
        advanced=True,
        help="""
Longest pause, in seconds, until a scope whose comparison failed is compared again.

The first pause has 5 seconds, and each further one is twice as long. A random part of up to a half is left out. The
pauses after an incomplete comparison, or after an unexpected error, grow up to the interval of the scope instead. A
SIGHUP applies a new value.

Related options: ``breaker_threshold``, ``interval``.
""",
    ),
    cfg.FloatOpt(
        "settling_limit",
        default=300,
        min=1,
        mutable=True,
        advanced=True,
        help="""
Seconds that a VDU of a VNF instance may be SETTLING, because its workload wants another number of pods than run.

After them the VDU is DRIFTED, with the reason, such as pods that are Unschedulable. A SIGHUP applies a new value.
""",
    ),
    cfg.IntOpt(
        "max_delete_percent",
        default=30,
        min=0,
        max=100,
        mutable=True,
        advanced=True,
        help="""
Delete guard: the percentage of a scope's entities of one kind that one comparison may delete. 100 disables the guard.

An empty list from a live system usually means a failure. If more entities are missing, the comparison deletes none of
that kind, logs the refusal, and counts it in the metrics. An entity that a new one of the same controller replaces
does not count as missing. Until the operator decides, the comparison creates no entity of that kind either, and syncs
no VNF instance of the scope. A SIGHUP applies a new value.

Related options: the argument ``--allow-deletes`` of ``watcher-sync-manage reconcile``.
""",
    ),
    cfg.DictOpt(
        "policy",
        default={},
        help="""
How a comparison treats differences, by kind of entity, such as ``vnf_instance:observe, pod:heal``.

Possible values: ``heal`` writes the live value into the model; ``observe`` only records the difference as a drift.
Kinds without a policy are healed. Events of pods and workloads change the model under both policies. An observed
``vnf_instance`` is written only when a client requests its sync.
""",
    ),
]


def policies(conf: cfg.ConfigOpts, kinds: Iterable[str] | None = None) -> dict[str, str]:
    """kind -> heal or observe, for the kinds that have a policy.

    :param kinds: the known kinds; None accepts any kind.
    :raises ConfigError: a value is neither heal nor observe, or a kind does not exist. The message names it.
    """
    known = None if kinds is None else sorted(kinds)
    for kind, policy in conf.reconcile.policy.items():
        if known is not None and kind not in known:
            raise ConfigError(f"[reconcile] policy: there is no kind {kind!r}; there are {', '.join(known)}")
        if policy not in (HEAL, OBSERVE):
            raise ConfigError(f"[reconcile] policy: {kind} is {policy!r}; it can be {HEAL} or {OBSERVE}")
    return dict(conf.reconcile.policy)
