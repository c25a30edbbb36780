# SPDX-License-Identifier: Apache-2.0
"""The folder of one run, with its configuration file, log and database."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from oslo_config import cfg

from watcher_sync.assembly import process
from watcher_sync.demo import live_cloud
from watcher_sync.exceptions import ConfigError

_CONFIG: Final = """\
# Written by watcher-sync demo.
[DEFAULT]
state_path = {state_path}

[engine]
enabled_sources = {sources}
# Its report writes all stacks to stderr, where a missed limit is one line.
event_watchdog = 0

[api]
auth_strategy = noauth
port = {port}

[source_nova]
driver = oslo_messaging
transport_url = {transport_url}
exchange = nova
topics = versioned_notifications
{more}"""

_SECTION: Final = re.compile(r"^\[source_(\w+)\]", re.MULTILINE)


@contextlib.contextmanager
def run_folder(options: argparse.Namespace) -> Iterator[tuple[pathlib.Path, threading.Event]]:
    """Gives the folder, and an event that keeps it, as when something failed.

    The folder is removed at the end unless the event is set, or an option keeps it.
    """
    keep = threading.Event()
    if options.state_path:
        folder = pathlib.Path(options.state_path).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise ConfigError(f"--state-path {options.state_path}: {exc.strerror}") from None
        if (folder / "watcher-sync.sqlite").exists():
            raise ConfigError(f"--state-path {options.state_path}: there is a database already")
        yield folder, keep
        return
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ws-demo-"))
    try:
        yield folder, keep
    finally:
        if not (options.keep or keep.is_set()):
            shutil.rmtree(folder, ignore_errors=True)


def configure(folder: pathlib.Path, file: pathlib.Path, parts: Sequence[str], port: int) -> cfg.ConfigOpts:
    """Writes the configuration file of a run, and reads it.

    :param parts: what the configuration says of each further source; empty for one that is not wanted.
    """
    text = _CONFIG.format(
        state_path=str(folder).replace("$", "$$"),
        transport_url=live_cloud.TRANSPORT_URL,
        sources=", ".join(["nova", *(name for part in parts for name in _SECTION.findall(part))]),
        port=port,
        more="".join(parts),
    )
    file.write_text(text, encoding="utf-8")
    argv = ["--config-file", str(file), "--log-file", str(folder / "demo.log")]
    return process.make_conf(argv, prog="watcher-sync demo")
