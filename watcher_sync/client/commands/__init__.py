# SPDX-License-Identifier: Apache-2.0
"""The commands, a module for each noun. The same classes serve ``watcher-sync`` and OpenStackClient."""
