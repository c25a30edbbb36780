# SPDX-License-Identifier: Apache-2.0
"""What drivers and extensions need to declare what ``watcher-sync-status upgrade check`` examines for its security.

A finding is one line: the option with its file, what follows from it, and the remedy. A connection to this machine
needs no TLS. Nothing here connects.
"""

from __future__ import annotations

import urllib.parse

import msgspec
from oslo_config import cfg

from watcher_sync.conf.networks import is_loopback


class NamedFile(msgspec.Struct, frozen=True):
    """A file that an option names, and that no other user may change."""

    section: str
    option: str
    path: str | None
    """None or empty: the option names no file."""
    has_secret: bool = True
    """Whether no other user may read it, either."""


def place(conf: cfg.ConfigOpts, option: str, group: str) -> str:
    """``[group] option (file)``; without the file if the value is a default."""
    try:
        location = conf.get_location(option, group)
    except (KeyError, cfg.NoSuchOptError, ValueError):
        location = None
    file = getattr(location, "detail", "") if location is not None and location.location.is_user_controlled else ""
    return f"[{group}] {option} ({file})" if file else f"[{group}] {option}"


def is_local(host: str) -> bool:
    """Whether a host, or the path of a socket, is on this machine."""
    return host.startswith(("/", "@")) or is_loopback(host)


def is_remote_http(url: str) -> bool:
    """Whether a URL is of another machine, and without TLS."""
    parts = urllib.parse.urlsplit(url)
    return parts.scheme == "http" and not is_local(parts.hostname or "")


def host_in(address: str) -> str:
    """The host of ``host``, ``host:port`` or ``[host]:port``; empty: it has none."""
    try:
        return urllib.parse.urlsplit(f"//{address}").hostname or ""
    except ValueError:
        return ""
