# SPDX-License-Identifier: Apache-2.0
"""Cluster data model collectors for OpenStack Watcher that read the models of watcher_sync.

``baremetal``    makes Watcher's bare-metal model
``collector``    the collectors that Watcher loads
``compute``      makes Watcher's compute model
``options``      the options of the collectors
``request``      requests what the models are made of, with Watcher's credentials
``scope``        applies an audit's scope without requests to services
``storage``      makes Watcher's storage model
"""
