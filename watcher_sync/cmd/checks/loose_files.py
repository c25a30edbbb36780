# SPDX-License-Identifier: Apache-2.0
"""Finds files of ours, and files that the configuration names, that other users can read or change.

A finding is one line: the file, the option that names it, and the remedy. A file that anyone may change is a finding
in any case. A file that anyone may read is one only if it has secrets.
"""

from __future__ import annotations

import os
import pathlib
import re
import stat
from collections.abc import Iterator

import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy import exc as sa_exc

from watcher_sync.conf.drivers import gather_declared
from watcher_sync.conf.findings import place
from watcher_sync.conf.private import read_privately
from watcher_sync.extension import gather
from watcher_sync.storage.database.database import sqlite_path

_SECRET = re.compile(
    r"^[ \t]*(?:\w*(?:password|secret|token|secret_key)[ \t]*=[ \t]*\S"
    r"|(?:transport_url|connection|slave_connection|servers)[ \t]*=.*:[^/\n]*@"
    r"|properties[ \t]*=.*password[ \t]*:)",
    re.IGNORECASE | re.MULTILINE,
)
_POLICY_OPTIONS = [
    cfg.StrOpt("policy_file", default="policy.yaml"),
    cfg.MultiStrOpt("policy_dirs", default=["policy.d"]),
]
_MAX_BYTES = 4 * 1024 * 1024


def find_loose_files(conf: cfg.ConfigOpts) -> list[str]:
    """The findings for configuration, policy, kubeconfigs, keys and the SQLite database."""
    return [*_configuration(conf), *_policy(conf), *_named(conf), *_state(conf)]


def _configuration(conf: cfg.ConfigOpts) -> Iterator[str]:
    for path in _config_files(conf):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                has_secret = _SECRET.search(file.read(_MAX_BYTES)) is not None
        except OSError:
            continue
        yield from _examine(path, "configuration file", has_secret=has_secret)


def _config_files(conf: cfg.ConfigOpts) -> list[str]:
    files = list(conf.config_file or [])
    for folder in conf.config_dir or []:
        files += sorted(map(str, pathlib.Path(folder).glob("*.conf")))
    return list(dict.fromkeys(files))


def _policy(conf: cfg.ConfigOpts) -> Iterator[str]:
    files = read_privately(conf)
    files.register_opts(_POLICY_OPTIONS, group="oslo_policy")
    group = files.oslo_policy
    paths = [files.find_file(group.policy_file)]
    for folder in group.policy_dirs:
        found = files.find_file(folder)
        paths += sorted(map(str, pathlib.Path(found).glob("*"))) if found and os.path.isdir(found) else []
    for path in paths:
        if path:
            yield from _examine(path, place(files, "policy_file", "oslo_policy"), has_secret=False)


def _named(conf: cfg.ConfigOpts) -> Iterator[str]:
    of_drivers = gather_declared(conf, lambda driver, section: driver.named_files(conf, section))
    for each in [*of_drivers, *gather(lambda extension: extension.named_files(conf))]:
        if each.path:
            yield from _examine(each.path, place(conf, each.option, each.section), has_secret=each.has_secret)


def _state(conf: cfg.ConfigOpts) -> Iterator[str]:
    try:
        path = sqlite_path(sa.make_url(conf.database.connection))
    except sa_exc.ArgumentError:
        return  # the check of the database reports it
    if path is not None:
        for suffix in ("", "-wal", "-shm"):
            yield from _examine(path + suffix, place(conf, "connection", "database"), has_secret=True)
    mode = _mode(conf.state_path)
    if mode is not None and mode & 0o002 and not mode & stat.S_ISVTX:
        yield f"{conf.state_path}: state_path: every user can replace the files in it; run chmod o-w on it."


def _examine(path: str, what: str, *, has_secret: bool) -> Iterator[str]:
    mode = _mode(path)
    if mode is None:
        return
    if mode & 0o022:
        others = "every user" if mode & 0o002 else "its group"
        yield f"{path}: {what}: {others} can change it (mode {mode:04o}); run chmod {_remedy(has_secret)} on it."
    elif has_secret and mode & 0o004:
        yield f"{path}: {what}: every user can read it (mode {mode:04o}); run chmod {_remedy(has_secret)} on it."


def _remedy(has_secret: bool) -> str:
    return "0640" if has_secret else "go-w"


def _mode(path: str) -> int | None:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return None
