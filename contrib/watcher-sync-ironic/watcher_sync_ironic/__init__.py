# SPDX-License-Identifier: Apache-2.0
"""Bare metal nodes of OpenStack Ironic in the model of watcher_sync.

entities     the kinds
payloads     what notifications and the API tell, in the same words
handler      notifications -> changes, and their order
reconciler   the API -> what exists
"""
