# SPDX-License-Identifier: Apache-2.0
"""An API whose syncs of VNF instances are a test's."""

from __future__ import annotations

from collections.abc import Mapping

from watcher_sync.extension import Extension, load_extensions
from watcher_sync.extensions.vnf.api.sync import SyncNow
from watcher_sync.extensions.vnf.extension import VnfExtension


def syncing_with(sync: SyncNow) -> Mapping[str, Extension]:
    """The installed extensions, with another implementation of the sync."""
    return {**load_extensions(), "vnf": VnfExtension(sync)}
