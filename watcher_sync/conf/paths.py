# SPDX-License-Identifier: Apache-2.0
"""``[DEFAULT]``: the directory for the program's own files."""

from __future__ import annotations

from oslo_config import cfg

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "state_path",
        default="/var/lib/watcher-sync",
        help="""
Directory for the files of watcher_sync itself, such as the SQLite database of a small installation.

Other options refer to the directory as ``$state_path``.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the group's options."""
    conf.register_opts(OPTS)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [("DEFAULT", OPTS)]
