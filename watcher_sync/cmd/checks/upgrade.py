# SPDX-License-Identifier: Apache-2.0
"""The checks of ``watcher-sync-status upgrade check``: those of the core, and then those of the extensions.

They write nothing and consume no event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck
from oslo_upgradecheck.upgradecheck import Code, Result

from watcher_sync import plugins
from watcher_sync.assembly.api import check_policy
from watcher_sync.assembly.probing import probe, warned
from watcher_sync.assembly.sources import make_authority, source_makers
from watcher_sync.assembly.store import open_store
from watcher_sync.cmd.checks.insecure_settings import find_insecure_access, find_insecure_transports
from watcher_sync.cmd.checks.loose_files import find_loose_files
from watcher_sync.conf.findings import place
from watcher_sync.dispatch import load_handlers
from watcher_sync.escaping import escaped
from watcher_sync.exceptions import ConfigError, SchemaMissing, StorageError, WatcherSyncError, described
from watcher_sync.extension import GROUP, Examined, failures, gather, load_extensions
from watcher_sync.storage.database.database import narrow_charset, url_of
from watcher_sync.storage.schema import schema


class Checks(upgradecheck.UpgradeCommands):
    """The checks of one configuration."""

    def __init__(self, conf: cfg.ConfigOpts, *, timeout: float = 10.0) -> None:
        """:param timeout: seconds within which each source has to answer."""
        self._conf = conf
        self._examined = Examined(conf=conf, timeout=timeout)
        more = gather(lambda extension: extension.upgrade_checks(self._examined))
        # The extensions at last: the other checks call their doors.
        more_checks = ((title, _alone(check)) for title, check in more)
        self._upgrade_checks: Any = (*_CORE, *more_checks, ("Extensions", Checks.extensions))

    def database(self) -> Result:
        """The database is available and has the schema of this release."""
        try:
            store = open_store(self._conf, checked=False)
            problems = schema.check(store.database, store.tables)
        except (SchemaMissing, ConfigError) as exc:
            return Result(Code.FAILURE, escaped(str(exc)))
        except StorageError as exc:
            return Result(Code.FAILURE, escaped(f"The database is unavailable: {exc}"))
        self._examined.store = store
        found = list(problems.values())
        if charset := narrow_charset(url_of(self._conf)):
            found.append(f"charset={charset} of {place(self._conf, 'connection', 'database')} is read as utf8mb4")
        if found:
            return Result(Code.WARNING, escaped("; ".join(found)))
        return Result(Code.SUCCESS)

    def sources(self) -> Result:
        """Every enabled source has a valid configuration and is available."""
        names = self._conf.engine.enabled_sources
        if not names:
            return Result(Code.WARNING, "[engine] enabled_sources is empty: the engine would read no source.")
        try:
            makers = source_makers(self._conf, None)
            make_authority(self._conf, load_handlers(self._conf))
        except WatcherSyncError as exc:
            return Result(Code.FAILURE, escaped(str(exc)))
        problems, unsupported = [], []
        for name, make in makers.items():
            try:
                probe(name, make().probe, self._examined.timeout)
            except WatcherSyncError as exc:
                problems.append(escaped(f"{name}: {exc}"))
            except NotImplementedError:
                unsupported.append(name)
        if problems:
            return Result(Code.FAILURE, "Unavailable: " + "; ".join(problems))
        return Result(Code.SUCCESS, f"The driver has no probe: {', '.join(unsupported)}" if unsupported else None)

    def access(self) -> Result:
        """No setting lets clients or providers do more than they should."""
        return warned(find_insecure_access(self._conf))

    def transports(self) -> Result:
        """Every connection to another machine has TLS and verifies the peer."""
        return warned(find_insecure_transports(self._conf))

    def policy(self) -> Result:
        """The files of the policy have no mistake, with which neither the API nor the watch stream starts."""
        try:
            check_policy(self._conf)
        except WatcherSyncError as exc:
            return Result(Code.FAILURE, escaped(str(exc)))
        return Result(Code.SUCCESS)

    def extensions(self) -> Result:
        """Every extension, and every plugin that a check or a process asked for, can be loaded."""
        names = load_extensions()
        found = [escaped(f"{name} {why}") for name, why in sorted(failures.items())]
        others = sorted((name, why) for name, why in plugins.unloadable.items() if not name.startswith(f"{GROUP} "))
        found += [escaped(f"{name} cannot be loaded: {why}") for name, why in others]
        return Result(Code.FAILURE, "\n".join(found)) if found else Result(Code.SUCCESS, ", ".join(names))

    def files(self) -> Result:
        """No other user can read a secret, or change a file that this service reads."""
        return warned(find_loose_files(self._conf))


def _alone(check: Callable[[], Result]) -> Callable[[Checks], Result]:
    """A check of an extension; if it raises, it fails, and the others run."""

    def run(_checks: Checks) -> Result:
        try:
            return check()
        except Exception as exc:  # noqa: BLE001 - the code of a stranger
            return Result(Code.FAILURE, escaped(f"The check itself failed: {described(exc)}"))

    return run


_CORE: Final = (
    # The files first: the check of the database restricts an SQLite file.
    ("Security of files", Checks.files),
    ("Security of access", Checks.access),
    ("Security of transports", Checks.transports),
    ("Policy", Checks.policy),
    ("Database schema", Checks.database),
    ("Sources", Checks.sources),
)


def run(conf: cfg.ConfigOpts) -> int:
    """Run the checks and print their results; returns the exit status."""
    # The check reports a failed connection. The driver's log line would make the output unreadable for programs.
    logging.getLogger("oslo.messaging").setLevel(logging.CRITICAL)
    upgradecheck.CONF = conf  # the library reads --json from it
    return int(Checks(conf).check())
