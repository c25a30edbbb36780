# SPDX-License-Identifier: Apache-2.0
"""What ``watcher-sync-status upgrade check`` examines of the logs."""

from __future__ import annotations

from oslo_upgradecheck.upgradecheck import Code, Result

from watcher_sync.assembly.probing import probe, warned
from watcher_sync.escaping import escaped
from watcher_sync.exceptions import WatcherSyncError
from watcher_sync.extension import Examined
from watcher_sync.extensions.log.assembly import make_outlets
from watcher_sync.model.loading import load_kinds


def outlets(examined: Examined) -> Result:
    """The log of every enabled outlet is available, and takes the largest entity that the model accepts."""
    try:
        kinds, outlets = load_kinds(), make_outlets(examined.conf)
    except WatcherSyncError as exc:
        return Result(Code.FAILURE, escaped(str(exc)))
    problems, warnings = [], []
    for name, outlet in outlets.items():
        published = [kind for kind in kinds.values() if kind.name in (outlet.group.kinds or kinds)]
        sizes = [(sum(field.max_bytes for field in kind.fields.values()), kind.name) for kind in published]
        size, largest = max(sizes, default=(0, ""))
        try:
            limit = probe(name, outlet.probe, examined.timeout)
        except WatcherSyncError as exc:
            problems.append(escaped(f"{name}: {exc}"))
            continue
        if limit is not None and limit < size:
            warnings.append(
                f"{name}: an entity of the kind {largest} may have {size} bytes, and the log takes {limit}: a"
                f" larger one is published without its fields. Raise {outlet.limit_names}."
            )
    return Result(Code.FAILURE, "Unavailable: " + "; ".join(problems)) if problems else warned(warnings)
