#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kolla_start reads it before each service.

mkdir -p /var/log/kolla/watcher-sync
chmod 750 /var/log/kolla/watcher-sync

. /usr/local/bin/kolla_watcher_sync_extend_start
