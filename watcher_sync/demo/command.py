# SPDX-License-Identifier: Apache-2.0
"""The command line of ``watcher-sync demo``.

``watcher-sync`` imports the modules of all its commands at each start. This module is separate from the demo, because
the demo imports the engine.
"""

from __future__ import annotations

import argparse

from cliff.command import Command


class Demo(Command):
    """See it work: simulated clouds, the engine, the model and its page, all in this process."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        add = parser.add_argument
        add("--for", dest="length", type=_positive, metavar="SECONDS",
            help="run the simulation for so long; else until Ctrl-C")  # fmt: skip
        add("--hosts", type=int, default=40, metavar="N", help="compute hosts of the cloud (default %(default)s)")
        add("--instances", type=int, default=300, metavar="N", help="instances of the cloud (default %(default)s)")
        add("--service-instances", type=int, default=60, metavar="N",
            help="instances of DCM's service types, 0 = without DCM (default %(default)s)")  # fmt: skip
        add("--nats", action=argparse.BooleanOptionalAction, default=True,
            help="DCM's events through a NATS server if there is one (default: yes), else in this process")  # fmt: skip
        add("--kubernetes", action=argparse.BooleanOptionalAction, default=True,
            help="a cluster with VNF instances, and life-cycle managers (default: yes)")  # fmt: skip
        add("--webhooks", action=argparse.BooleanOptionalAction, default=True,
            help="subscriptions, an outlet, and a receiver of their webhooks (default: yes)")  # fmt: skip
        add("--rate", type=float, default=20.0, metavar="N",
            help="notifications a second, 0 = as many as the engine reads (default %(default)g)")  # fmt: skip
        add("--seed", type=int, default=7, metavar="N", help="another seed is another history (default %(default)s)")
        add("--poison", type=_percent, default=1.0, metavar="PERCENT",
            help="broken messages that belong into quarantine (default %(default)g)")  # fmt: skip
        add("--disorder", action=argparse.BooleanOptionalAction, default=True,
            help="deliver some notifications late and some twice (default: yes)")  # fmt: skip
        add("--port", type=_port, default=8790, metavar="N",
            help="port of the API and its page; if it is taken, any free one (default %(default)s)")  # fmt: skip
        add("--plain", action="store_true", help="lines instead of the live picture, as when stdout is no terminal")
        add("--state-path", metavar="DIR", help="keep database, configuration and log in this folder")
        add("--keep", action="store_true", help="do not remove the temporary folder")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run it; the exit status."""
        from watcher_sync.assembly import process
        from watcher_sync.demo import demonstration

        process.prepare()
        return process.run(lambda _: demonstration.run(parsed_args), [])


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65_535:
        raise argparse.ArgumentTypeError(f"{text} is no port")
    return value


def _percent(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 100")
    return value
