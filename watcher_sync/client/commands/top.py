# SPDX-License-Identifier: Apache-2.0
"""``top``: sources, entities and changes, drawn once a second until q or Ctrl-C; with ``--once`` a single picture.

One thread reads the API, draws, and waits for a key until the next picture is due. While the API is unavailable, the
last picture stays, with the error in its first line. If the API refuses a request, the command ends.
"""

from __future__ import annotations

import argparse
import contextlib
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.live import Live

from watcher_sync.client.commands.arguments import argument
from watcher_sync.client.commands.base import Command
from watcher_sync.client.screen import Screen
from watcher_sync.client.stats import ModelStats

_QUIT = frozenset("qQ\x03\x04")


def _interval(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError("must be between 0.1 and 3600 seconds")
    return value


class Top(Command):
    """Show sources, entities, event rate and recent changes, refreshed every second. q ends."""

    is_guarded = False

    arguments = (
        argument("--once", action="store_true", help="print one picture and end; the default if stdout is no terminal"),
        argument(
            "--interval", type=_interval, default=1.0, metavar="SECONDS",
            help="seconds between two pictures (default: 1)",
        ),
    )  # fmt: skip

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Draws until a key or Ctrl-C ends the command."""
        console = Console()
        stats = ModelStats(self.client)
        if parsed_args.once or not console.is_terminal:
            screen = Screen(once=True)
            screen.stats = stats.read()
            console.print(screen)
            return 0
        screen = Screen()
        screen.stats = stats.read()  # at the start, an API that is unavailable is an error
        live = Live(screen, console=console, screen=True, auto_refresh=False)
        with contextlib.suppress(KeyboardInterrupt), _keys() as pressed, live:
            live.refresh()
            while not pressed(parsed_args.interval):
                screen.stats = stats.refresh()
                live.refresh()
        return 0


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Reads single keys, and restores the terminal at the end.

    :returns: a function that waits for a number of seconds; it returns whether a key that ends ``top`` was pressed.
    """
    if not sys.stdin.isatty():
        yield _no_keys
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield _pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _pressed(seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([sys.stdin], [], [], left)
        if ready:
            key = sys.stdin.read(1)
            if not key or key in _QUIT:
                return True
    return False


def _no_keys(seconds: float) -> bool:
    time.sleep(seconds)
    return False
