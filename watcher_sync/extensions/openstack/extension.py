# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

from collections.abc import Mapping

from watcher_sync.extension import ComputedFields, Extension


class OpenStackExtension(Extension):
    """See the module."""

    def computed_fields(self) -> Mapping[str, ComputedFields]:
        """What the instances use of a host, and what is free."""
        from watcher_sync.read.host_usage import COMPUTED, KIND

        return {KIND: COMPUTED}
