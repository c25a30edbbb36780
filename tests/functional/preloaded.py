# SPDX-License-Identifier: Apache-2.0
"""What the fork server of the commands does before it imports their modules.

It chooses the backend of oslo.service, as the commands do first; some drivers choose another one at their import. It
reads the entry points of all packages into the cache of stevedore, which each process would fill again.
"""

import stevedore
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)
stevedore.ExtensionManager("watcher_sync.sources")
