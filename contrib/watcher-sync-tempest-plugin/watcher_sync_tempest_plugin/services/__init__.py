# SPDX-License-Identifier: Apache-2.0
"""Clients of the API. Each method returns the document of the answer; its attribute ``response`` has the headers."""

from watcher_sync_tempest_plugin.services.entities import EntitiesClient
from watcher_sync_tempest_plugin.services.operations import OperationsClient
from watcher_sync_tempest_plugin.services.site import SiteClient
from watcher_sync_tempest_plugin.services.subscriptions import SubscriptionsClient

__all__ = ["EntitiesClient", "OperationsClient", "SiteClient", "SubscriptionsClient"]
