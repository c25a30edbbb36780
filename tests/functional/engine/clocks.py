# SPDX-License-Identifier: Apache-2.0
"""The wall clock of the processes of one engine, as a test sets it.

A preloaded library adds the offset in a file to the wall clock. The monotonic clock is the real one. (libfaketime
breaks ``clock_nanosleep`` with the monotonic clock.) A server of a database has a clock of its own. SQLite works in
the engine's process and has the engine's clock.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long offset(void)
{
    long seconds = 0;
    FILE *file = fopen(getenv("TEST_CLOCK_FILE"), "r");
    if (file) {
        if (fscanf(file, "%ld", &seconds) != 1)
            seconds = 0;
        fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t id, struct timespec *at)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, at);
    if (result == 0 && id == CLOCK_REALTIME)
        at->tv_sec += offset();
    return result;
}

int gettimeofday(struct timeval *at, void *zone)
{
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
"""


class MachineClock:
    """The wall clock of the processes that have :attr:`environment`."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.fail("this test needs a C compiler: install the Debian package gcc", pytrace=False)
        source, library = folder / "clock.c", folder / "clock.so"
        source.write_text(_SOURCE)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        self._file = folder / "clock"
        self.set(0)
        self.environment = {"LD_PRELOAD": str(library), "TEST_CLOCK_FILE": str(self._file)}

    def set(self, seconds: int) -> None:
        """From now on it is so many seconds ahead of the real one."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds}\n")
        new.replace(self._file)
