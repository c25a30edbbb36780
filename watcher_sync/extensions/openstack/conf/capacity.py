# SPDX-License-Identifier: Apache-2.0
"""``[reconcile_capacity]``: which capacity providers are enabled, and how often they are asked."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "reconcile_capacity"

CAPACITY_PROVIDERS = "watcher_sync.capacity_providers"
"""The entry point group of the providers."""

OPTS: list[cfg.Opt] = [
    cfg.ListOpt(
        "providers",
        default=[],
        help="""
The enabled capacity providers, in order of precedence: names of entry points in ``watcher_sync.capacity_providers``.

Possible values: ``placement``, ``nova``, ``static``, ``kubernetes``, and those of plugins. Where several providers
report one field of a host, the first one wins. A field that it does not report comes from the next one. A field that
none reports is unknown.

Related options: ``[capacity_provider_<name>]``, the options of each provider; ``[reconcile_nova]``, the account that
``placement`` and ``nova`` use.
""",
    ),
    cfg.FloatOpt(
        "interval",
        default=600,
        min=1,
        mutable=True,
        help="""
Seconds between two runs of one provider.

``[reconcile] jitter`` applies to it. A SIGHUP applies a new value at once.
""",
    ),
    cfg.FloatOpt(
        "run_timeout",
        default=300,
        min=1,
        mutable=True,
        advanced=True,
        help="""
Seconds after which a run of a provider counts as failed. It takes the place of ``[reconcile] timeout``.
""",
    ),
]
