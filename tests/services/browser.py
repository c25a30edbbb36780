# SPDX-License-Identifier: Apache-2.0
"""Chromium and its driver on this machine, for the tests of the page. No server: each test starts its own.

Both come from the distribution, so that they fit each other, and both are named to Selenium by their paths:
it downloads nothing. Standard library only.
"""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple

from tests.services.servers import ServiceMissing

NAME = "chromium"
VARIABLE = "WATCHER_SYNC_TEST_CHROMIUM"
DRIVER_VARIABLE = "WATCHER_SYNC_TEST_CHROMEDRIVER"
PACKAGE = "chromium-driver"
"""Depends on the browser of the same version."""


class Browser(NamedTuple):
    """Paths of executables."""

    chromium: str
    driver: str


def find() -> Browser:
    """The browser that the environment names, else the one in PATH, and its driver.

    :raises ServiceMissing: saying which of the two is not there.
    """
    return Browser(_executable(VARIABLE, "chromium"), _executable(DRIVER_VARIABLE, "chromedriver"))


def _executable(variable: str, usual: str) -> str:
    named = os.environ.get(variable, usual)
    found = shutil.which(named)
    if found is None:
        raise ServiceMissing(f"{named} is not installed")
    return found
