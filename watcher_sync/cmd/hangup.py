# SPDX-License-Identifier: Apache-2.0
"""SIGHUP during the start of a service.

Its default action ends a process. A service ignores it from the start until it handles it. When it does, it reads its
files again, so no SIGHUP is lost. Imports the standard library only.
"""

from __future__ import annotations

import signal


def ignore() -> None:
    """Ignore SIGHUP until another function of this process sets a handler. For the main thread."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
