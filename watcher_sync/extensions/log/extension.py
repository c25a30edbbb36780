# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

from watcher_sync.extension import Extension


class LogExtension(Extension):
    """See the module."""
