# SPDX-License-Identifier: Apache-2.0
"""A cluster data model collector for OpenStack Watcher that reads the compute model of watcher_sync.

``collector``    the collector that Watcher loads
``options``      the options of the collector
``request``      requests the compute model, with Watcher's credentials
``scope``        applies an audit's scope without a request to Nova
``translation``  makes Watcher's ModelRoot of a compute model
"""
