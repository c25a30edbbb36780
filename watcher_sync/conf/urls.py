# SPDX-License-Identifier: Apache-2.0
"""Checks URLs that have a user and a password.

An unencoded delimiter in a password ends the host too early. A library would then take a part of the password for the
host or the port, which errors and the status show.
"""

from __future__ import annotations

import re
from typing import Final

from watcher_sync.exceptions import ConfigError

_PARTS: Final = re.compile(r"[^/]*://([^/?#]+)(.*)", re.DOTALL)


def check_login(section: str, option: str, url: str) -> None:
    """Refuse a URL in which an ``@`` is not the one between a login and its host.

    :param url: may have several hosts, with commas between them.
    :raises ConfigError: without the URL.
    """
    parts = _PARTS.match(url)
    if parts is not None and (any(host.count("@") > 1 for host in parts[1].split(",")) or "@" in parts[2]):
        raise ConfigError(
            f"[{section}] {option}: the URL has an @ that is not before a host; in a user, a password and what follows"
            " the host, write @ / : ? # percent-encoded as %40 %2F %3A %3F %23"
        )
