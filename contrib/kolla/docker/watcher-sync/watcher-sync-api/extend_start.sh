#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The one-shot containers: one that is set to nothing counts, too.

db_sync="watcher-sync-manage --config-file /etc/watcher-sync/watcher-sync.conf db_sync"

if [[ -v KOLLA_BOOTSTRAP || -v KOLLA_UPGRADE ]]; then
    $db_sync
    exit 0
fi

# When no process of the older release runs any more.
if [[ -v KOLLA_FINISH_UPGRADE ]]; then
    $db_sync --contract
    exit 0
fi
