# SPDX-License-Identifier: Apache-2.0
"""Follows other installations of watcher_sync.

``extension``  What the core asks of it
"""
