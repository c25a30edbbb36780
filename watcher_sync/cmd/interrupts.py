# SPDX-License-Identifier: Apache-2.0
"""SIGINT ends an executable, whatever the process inherits.

A shell without job control starts background jobs with SIGINT ignored, and Python leaves it so. Without this module,
SIGINT has no effect on such a job and on its children.
"""

from __future__ import annotations

import signal


def accept() -> None:
    """Set Python's own handler of SIGINT where the process inherits that it is ignored. Call it in the main thread."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
