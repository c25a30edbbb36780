# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-status upgrade check``: checks that this release can start.

The exit status is the one of every OpenStack upgrade check: 0 success, 1 warning, 2 failure, 255 an error in a check. A
wrong configuration is also 2, with one line on stderr.
"""

from __future__ import annotations

import sys
from typing import Any

from oslo_config import cfg

from watcher_sync.assembly import process
from watcher_sync.cmd.start import accept_interrupt
from watcher_sync.exceptions import ConfigError


def main() -> None:
    """Entry point."""
    accept_interrupt()
    process.prepare()
    sys.exit(process.run(_main))


def _main(argv: list[str]) -> int:
    command = cfg.SubCommandOpt("command", title="commands", handler=_add_commands)
    conf = process.make_conf(argv, prog="watcher-sync-status", cli_opts=[command], log_to_stderr_only_warnings=True)
    if conf.command.name is None:
        raise ConfigError("no command given; see watcher-sync-status --help")
    # Imported here: the import is slow, and --version and --help do not need it.
    from watcher_sync.cmd.checks import upgrade

    return upgrade.run(conf)


def _add_commands(commands: Any) -> None:
    text = "Check that this release can start."
    upgrade = commands.add_parser("upgrade", help=text, description=text)
    upgrade.add_argument("check", choices=["check"], help="run the checks")
    upgrade.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    upgrade.add_argument(
        "--hours",
        type=float,
        default=24.0,
        metavar="N",
        help="warn if Nova has sent no notification, or no instance.update, for N hours (default: 24)",
    )
