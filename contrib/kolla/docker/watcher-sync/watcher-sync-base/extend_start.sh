#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kolla_start reads it before each service.

[[ -d /var/log/kolla/watcher-sync ]] || mkdir -p -m 750 /var/log/kolla/watcher-sync

. /usr/local/bin/kolla_watcher_sync_extend_start
