# SPDX-License-Identifier: Apache-2.0
"""Signals from the first moment of an executable, before it imports its libraries. Imports the standard library only.

The default action of SIGHUP ends a process. A service ignores it from the start until it handles it. When it does, it
reads its files again, so no SIGHUP is lost.

A shell without job control starts background jobs with SIGINT ignored, and Python leaves it so. SIGINT would have no
effect on such a job and on its children.
"""

from __future__ import annotations

import signal


def ignore_hangup() -> None:
    """Ignore SIGHUP until another function of this process sets a handler. For the main thread."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def accept_interrupt() -> None:
    """Set Python's own handler of SIGINT where the process inherits that it is ignored. For the main thread."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
