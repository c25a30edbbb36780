# SPDX-License-Identifier: Apache-2.0
"""Racks and their power in the model of watcher_sync."""
