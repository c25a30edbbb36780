# SPDX-License-Identifier: Apache-2.0
"""Parts of checks for ``watcher-sync-status upgrade check``: a probe with a time limit, and results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from oslo_upgradecheck.upgradecheck import Code, Result

from watcher_sync.exceptions import SourceError, WatcherSyncError


def probe(name: str, ask: Callable[[], Any], timeout: float) -> Any:
    """What a function returns that runs in a daemon thread, which is abandoned after ``timeout`` seconds.

    :raises WatcherSyncError: what is probed is unavailable, or does not answer in time.
    :raises NotImplementedError: its driver has no probe.
    """
    answers: list[Any] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            answers.append(ask())
        except Exception as exc:  # noqa: BLE001 - raised again in the caller's thread
            failed.append(exc)

    thread = threading.Thread(target=run, name=f"probe-{name}", daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        raise SourceError(f"no answer within {timeout:g} s")
    if failed:
        if isinstance(failed[0], (WatcherSyncError, NotImplementedError)):
            raise failed[0]
        raise SourceError(f"{type(failed[0]).__name__}: {failed[0]}") from failed[0]
    return answers[0]


def warned(findings: Sequence[str]) -> Result:
    """A warning with one line per finding."""
    return Result(Code.WARNING, "\n".join(findings)) if findings else Result(Code.SUCCESS)
