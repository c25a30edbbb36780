# SPDX-License-Identifier: Apache-2.0
"""``[DEFAULT]``: where files are kept."""

from __future__ import annotations

from oslo_config import cfg

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "state_path",
        default="/var/lib/watcher-sync",
        help="""
Directory for what watcher_sync itself keeps, such as the SQLite database of a small installation.

Other options refer to it as ``$state_path``.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the group's options."""
    conf.register_opts(OPTS)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [("DEFAULT", OPTS)]
