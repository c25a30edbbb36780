# SPDX-License-Identifier: Apache-2.0
"""Tests of a running watcher_sync, as a plugin of OpenStack Tempest.

config
    Options of ``tempest.conf``.
plugin
    The plugin that Tempest loads.
services
    Clients of the API.
tests
    ``api``: what each role may do, and operation leases. ``scenario``: servers, callbacks and VNF instances.
"""
