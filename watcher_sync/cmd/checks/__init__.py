# SPDX-License-Identifier: Apache-2.0
"""What ``watcher-sync-status upgrade check`` examines.

``insecure_settings``  Settings that let others do or read more than they should
``loose_files``        Files that other users can read or change
``upgrade``            The checks: those two, the database, the sources, the policy and the extensions
"""
