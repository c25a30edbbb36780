# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-manage reconcile``: compares the model with the live systems and repairs the model."""

from __future__ import annotations

import sys
import time
from typing import Final

from oslo_config import cfg

from watcher_sync.assembly.reconcile import make_reconcilers
from watcher_sync.assembly.store import open_store
from watcher_sync.cmd.output import print_json, print_report
from watcher_sync.dispatch import load_handlers
from watcher_sync.escaping import escaped
from watcher_sync.exceptions import ConfigError, DatabaseUnavailable, ReconcileError, described

_NOTHING_TO_COMPARE: Final = (
    "nothing to compare: enable a reconciler by [reconcile_nova] enabled, [reconcile_capacity] providers, a kubernetes "
    "or federation source in [engine] enabled_sources, or cloud or auth_type in [reconciler_NAME] of a plugin"
)


def reconcile(conf: cfg.ConfigOpts) -> int:
    """Print a report per scope; 1 if a comparison was incomplete or the delete guard refused deletions."""
    wanted, failed = conf.command.scopes, False
    store = open_store(conf)
    known = [(scope, one) for one in make_reconcilers(conf, store, load_handlers(conf)) for scope in one.scopes()]
    scopes = sorted({scope for scope, _ in known})
    if not scopes:
        raise ConfigError(_NOTHING_TO_COMPARE)
    for name in wanted:
        if name not in scopes:
            raise ConfigError(f"{name}: no such scope; the scopes are {', '.join(scopes)}")
    for scope, one in [each for name in wanted or scopes for each in known if each[0] == name]:
        timeout = one.timeout(scope)
        deadline = time.monotonic() + (conf.reconcile.timeout if timeout is None else timeout)
        try:
            report = one.run(
                scope, dry_run=conf.command.dry_run, allow_deletes=conf.command.allow_deletes, deadline=deadline
            )
        except DatabaseUnavailable:
            raise
        except Exception as exc:  # noqa: BLE001 - a plugin may raise anything; the other scopes are compared
            reason = str(exc) if isinstance(exc, ReconcileError) else f"{one.name}/{scope}: {described(exc)}"
            print(escaped(reason), file=sys.stderr)
            failed = True
            continue
        failed |= not report.complete or bool(report.refused_deletes) or bool(report.refused_writes)
        if conf.command.format == "table":
            print_report(report)
        else:
            print_json(report)
        for kind in report.refused_deletes:
            print(
                f"{report.scope}: the delete guard refused to delete {report.refused_share(kind)} entities of the kind "
                f"{kind}, more than [reconcile] max_delete_percent; --allow-deletes confirms them",
                file=sys.stderr,
            )
    return int(failed)
