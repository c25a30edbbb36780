# SPDX-License-Identifier: Apache-2.0
"""Returns the memory of large bodies to the system.

glibc raises its threshold for memory mappings, up to 32 MiB, when a mapped block is freed. From then on large blocks
come from the heap, and small blocks that outlive them prevent their return. An engine that had read bodies of 500 kB
used 85 MB more than before; with a fixed threshold it uses 58 MB more.

Other C libraries do not raise the threshold and have no ``mallopt``: nothing is done there.

Source: mallopt(3), "M_MMAP_THRESHOLD" and "M_ARENA_MAX".
"""

from __future__ import annotations

import ctypes
from typing import Final

_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8

_MMAP_THRESHOLD_BYTES: Final = 262_144
_ARENAS: Final = 2
"""The interpreter's lock lets one thread allocate at a time, so one arena for each thread only wastes memory."""


def configure() -> None:
    """Set up the allocator of this process. Call it before other threads run."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)
