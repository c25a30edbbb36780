# SPDX-License-Identifier: Apache-2.0
"""Lists the rules of the policy for ``oslopolicy-sample-generator``.

The rules are those of an application on an empty database, which serves no request.
"""

from __future__ import annotations

from oslo_config import cfg
from oslo_policy import policy

from watcher_sync.api.http import openapi
from watcher_sync.api.http.rules import rules_of
from watcher_sync.api.service import Service
from watcher_sync.assembly.api import make_routes
from watcher_sync.conf import opts
from watcher_sync.dispatch import Dispatcher
from watcher_sync.model.entities import builtin_kinds
from watcher_sync.storage.database import database
from watcher_sync.storage.writing.store import Store


def list_rules() -> list[policy.RuleDefault]:
    """Returns the rules of the built-in kinds. A plugin's kind has the same rules under its own plural."""
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    database.register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", "sqlite://", group="database")
    store = Store(database.open_database(conf), builtin_kinds())
    return rules_of(openapi.operations(make_routes(Service(conf, store), Dispatcher([]))))
