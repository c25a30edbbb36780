# SPDX-License-Identifier: Apache-2.0
"""Large bodies leave no memory behind, also where small objects outlive them."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from tests.waiting import deadline

PROGRAM = """
import threading
import psutil
from watcher_sync.assembly import process
process.prepare()
del (block := [bytes(500_000)])[:]
before = psutil.Process().memory_info().rss
small = []

def read_bodies():
    bodies = []
    for _ in range(200):
        bodies.append(bytes(500_000))
        small.append(bytes(2_000))

for thread in (threading.Thread(target=read_bodies), threading.Thread(target=read_bodies)):
    thread.start()
    thread.join()
print(psutil.Process().memory_info().rss - before)
"""


def growth() -> int:
    """Bytes by which an executable grows that reads 200 MB and stores 0.8 MB of it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=deadline(60)
    )
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no mallopt")
@pytest.mark.rare
def test_an_executable_returns_the_memory_of_large_bodies():
    # With the defaults of glibc three of four processes grow by 100 MB, and the others by 6 MB.
    assert max(growth() for _ in range(4)) < 4_000_000
