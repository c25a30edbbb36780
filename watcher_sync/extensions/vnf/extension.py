# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

from collections.abc import Iterable

from watcher_sync.extension import DriftCause, Extension


class VnfExtension(Extension):
    """See the module."""

    def drift_causes(self) -> Iterable[DriftCause]:
        """Instances whose pods match no level."""
        from watcher_sync.vnf.drifts import LEVEL

        return [LEVEL]
