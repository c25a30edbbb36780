# SPDX-License-Identifier: Apache-2.0
"""What the account does not see of Nova, although Nova answers 200.

Whether an account is an administrator is a rule of Nova's of its own, ``context_is_admin``. To others Nova shows server
groups of their own project and public flavors, and answers 404 for a server of another project. Other rules decide
what the lists show. Nova drops a filter that the account may not use, and says nothing.

So a request proves both: only an administrator may sort servers by host, and no server has the uuid of the filter.
"""

from __future__ import annotations

from typing import Final

import msgspec

from watcher_sync.extensions.openstack.cloud.errors import CloudError

RULE_OF_ADMINS: Final = "context_is_admin"
RULE_OF_FILTERS: Final = "os_compute_api:servers:allow_all_filters"
RULE_OF_HOSTS: Final = "os_compute_api:os-extended-server-attributes"
RULE_OF_SPECS: Final = "os_compute_api:servers:show:flavor-extra-specs"
RULE_OF_SOURCES: Final = "os_compute_api:os-migrations:index:host"

PROBE: Final = {"all_tenants": "1", "limit": "1", "uuid": "00000000-0000-0000-0000-000000000000"}
"""A filter that no server matches. A server in the answer proves that Nova dropped it."""
ADMIN_PROBE: Final = {**PROBE, "sort_key": "host"}
"""Nova refuses it to others than administrators."""


class ServerUnseen(CloudError):
    """The account does not see whether a server exists."""


class Sight(msgspec.Struct, frozen=True):
    """What an account sees."""

    is_admin: bool
    has_filters: bool
    """Whether Nova applies all filters of servers. True if it has no server to prove the contrary."""
