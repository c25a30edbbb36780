# SPDX-License-Identifier: Apache-2.0
"""A connection is lost at each message: in the handshake, in a statement, at the return to the pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest
import sqlalchemy as sa

from tests.faults.transactions import CASES, Writer, populate
from tests.faulty_proxy import FaultyProxy
from tests.functional.storage.sessions import end_sessions
from tests.migrated import migrate
from watcher_sync.exceptions import DatabaseUnavailable, WatcherSyncError

_MOST_MESSAGES: Final = 50
"""More than any case sends, but one that has more to do after each failure."""


def _read_stable(w: Writer) -> None:
    with w.store.connect_stable() as connection:
        connection.execute(sa.select(w.tables.leases)).all()


_FEW: Final[dict[str, Callable[[Writer], object]]] = {
    "commit": lambda w: w.write_hosts(),
    "renew the lease": lambda w: w.lease.beat(),
    "load": lambda w: w.store.load(),
    "stable": _read_stable,
    "take the lease": lambda w: w.lease.try_take(),
    "schema": lambda w: w.lease.require_schema(),
    "first connection": lambda w: (w.database.dispose(), _read_stable(w)),
    "first connection of the lease": lambda w: (w.lease_database.dispose(), w.lease.beat()),
    "first commit": lambda w: (w.store.dispose(), w.write_hosts()),
}


class _Site:
    """A writer whose connections go through a proxy."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.proxy = FaultyProxy(sa.make_url(url).port or 0)
        far = sa.make_url(url).set(port=self.proxy.port).render_as_string(hide_password=False)
        self.writer = Writer(far)

    def outcome_of(self, case: Callable[[Writer], object]) -> str:
        """Why a case failed in another way than with an error of ours, or left the pools other than as they were."""
        writer = self.writer
        try:
            case(writer)
        except WatcherSyncError:
            pass
        except Exception as exc:  # noqa: BLE001 - reported
            return f"{type(exc).__module__}.{type(exc).__name__}: {exc}"
        for engine in (writer.database, writer.lease_database, writer.store.commits):
            open_for_good = engine is writer.store.commits and writer.store._connection is not None
            if engine.pool.checkedout() > open_for_good:
                return f"a pool lost the place of a connection: {engine.pool.status()}"
        return ""


@pytest.fixture(params=["mariadb", pytest.param("postgresql", marks=pytest.mark.rare)])
def site(request: pytest.FixtureRequest) -> Iterator[_Site]:
    site = _Site(request.getfixturevalue(f"{request.param}_url"))
    migrate(site.writer.store)
    populate(site.writer)
    yield site
    site.writer.close()
    site.proxy.cut()


@pytest.mark.parametrize("cases", [_FEW, pytest.param(CASES, marks=pytest.mark.rare)], ids=["few", "all"])
@pytest.mark.parametrize("how", ["reset", pytest.param("ended by the server", marks=pytest.mark.rare)])
def test_a_connection_lost_at_any_message_is_an_unavailable_database_without_a_traceback(
    site: _Site, how: str, cases: dict[str, Callable[[Writer], object]], caplog: pytest.LogCaptureFixture
) -> None:
    lose = site.proxy.reset if how == "reset" else lambda: end_sessions(site.url)
    wrong = {}
    for name, case in cases.items():
        site.outcome_of(case)
        for number in range(1, _MOST_MESSAGES):
            site.proxy.at_message(number, lose)
            if found := site.outcome_of(case):
                wrong[name, number] = found
                site.writer.close()
            if site.proxy.messages_left > 0:
                break
        site.proxy.at_message(0, bool)
        try:
            case(site.writer)
        except DatabaseUnavailable as exc:
            wrong[name, 0] = str(exc)
        except WatcherSyncError:
            pass
    traced = [r.getMessage() for r in caplog.records if r.exc_info]
    assert not wrong
    assert not traced
