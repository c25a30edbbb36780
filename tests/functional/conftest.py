# SPDX-License-Identifier: Apache-2.0
"""The real databases and brokers of the functional tests, with separate data for each test.

An empty database is created for one test and dropped after it. A migrated database is restored after a test, and the
next test gets it. On the broker a test uses the default virtual host and names from ``broker.name``. After the test,
everything with these names is deleted. A missing service fails the test with a message; it never skips it.

A test passes what it measured to ``figure``, and the run shows it at its end.

Tests that break servers take ``own_postgresql`` or ``own_rabbitmq``: real processes of their own, to be
stopped, killed and started again (see tests/services/servers.py).
"""

from __future__ import annotations

import itertools
import secrets
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import kombu
import pytest
import sqlalchemy
from oslo_service import backend

from tests.functional.databases import MigratedDatabases, fresh_database
from tests.migrated import migrate
from tests.services.ensure import CannotEnsure, tool, url_of
from tests.services.servers import Server, private_mariadb, private_nats, private_postgresql, private_rabbitmq
from watcher_sync.extensions.openstack.source.notifier_options import PRIORITIES
from watcher_sync.model.kinds import Kinds
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

# As in our executables: native threads, chosen before anything of oslo.messaging is imported.
backend.init_backend(backend.BackendType.THREADING)

_FIGURE = "figure"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = itertools.chain.from_iterable(terminalreporter.stats.values())
    # A report carries its properties from the process that ran the test to the one that prints.
    figures = [
        f"{report.nodeid.rpartition('::')[2]}: {text}"
        for report in reports
        if getattr(report, "when", None) == "teardown"
        for name, text in report.user_properties
        if name == _FIGURE
    ]
    if figures:
        terminalreporter.section("what was measured")
        for figure in figures:
            terminalreporter.line(figure)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _place(item.path))


def _place(path: Path) -> tuple[int, int]:
    """Where a file comes in a run on several processors.

    The run ends with its last file, so the long files, which are in this folder, come first, and unit tests last. The
    files of one folder need the same: processors, a browser, or time. So functional files are mixed, always in one way.
    """
    folder = Path(__file__).parent
    if path.parent == folder:
        return 0, 0
    if path.is_relative_to(folder):
        return 1, zlib.crc32(path.relative_to(folder).as_posix().encode())
    return 2, 0


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    # Tests that run alone have a run of their own; where those that were asked for are in the other one, all is well.
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.option.markexpr:
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Show a measured figure at the end of the run."""
    return lambda text: request.node.user_properties.append((_FIGURE, text))


def _service_url(service: str) -> str:
    try:
        return url_of(service)
    except CannotEnsure as exc:
        pytest.fail(str(exc), pytrace=False)


@pytest.fixture(scope="session")
def kubectl_path() -> str:
    """kubectl, whichever version is at hand."""
    try:
        return tool("kubectl")
    except CannotEnsure as exc:
        pytest.fail(str(exc), pytrace=False)


@pytest.fixture
def postgresql_url() -> Iterator[str]:
    """An empty PostgreSQL database of this test's own."""
    with fresh_database("postgresql", _service_url("postgresql")) as url:
        yield url


@pytest.fixture
def mariadb_url() -> Iterator[str]:
    """An empty MariaDB database of this test's own."""
    with fresh_database("mariadb", _service_url("mariadb")) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """An SQLite file of this test's own, which does not exist yet."""
    return f"sqlite:///{tmp_path / 'watcher-sync.sqlite'}"


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def any_database_url(request: pytest.FixtureRequest) -> str:
    """An empty database of each kind in turn."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(scope="session")
def migrated_databases() -> Iterator[MigratedDatabases]:
    """Databases with the schema in place, used by one test after the other."""
    databases = MigratedDatabases(_service_url)
    yield databases
    databases.close()


@pytest.fixture
def declared_kinds() -> Kinds:
    """The kinds that a migrated database has tables for."""
    return builtin_kinds()


@pytest.fixture
def migrated_postgresql_url(migrated_databases: MigratedDatabases, declared_kinds: Kinds) -> Iterator[str]:
    """A PostgreSQL database with an empty schema."""
    with migrated_databases.lend("postgresql", declared_kinds) as url:
        yield url


@pytest.fixture
def migrated_mariadb_url(migrated_databases: MigratedDatabases, declared_kinds: Kinds) -> Iterator[str]:
    """A MariaDB database with an empty schema."""
    with migrated_databases.lend("mariadb", declared_kinds) as url:
        yield url


@pytest.fixture
def migrated_sqlite_url(sqlite_url: str, declared_kinds: Kinds) -> str:
    """An SQLite file with an empty schema."""
    store = migrate(Store(sqlalchemy.create_engine(sqlite_url), declared_kinds))
    store.close()
    store.database.dispose()
    return sqlite_url


@pytest.fixture(params=["sqlite", *(pytest.param(name, marks=pytest.mark.rare) for name in ("postgresql", "mariadb"))])
def one_migrated_url(request: pytest.FixtureRequest) -> str:
    """SQLite with an empty schema; in the rare tests the servers, too. For what is the same on each database."""
    return str(request.getfixturevalue(f"migrated_{request.param}_url"))


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def any_migrated_url(request: pytest.FixtureRequest) -> str:
    """A database of each kind in turn, with an empty schema."""
    return str(request.getfixturevalue(f"migrated_{request.param}_url"))


class Broker:
    """The RabbitMQ of the test run, and names on it that no other test uses."""

    def __init__(self, url: str) -> None:
        self.url = url
        """For oslo.messaging."""
        self.amqp_url = "amqp://" + url.partition("://")[2]
        """For kombu and other AMQP clients."""
        self.unique = f"watcher-sync-test-{secrets.token_hex(6)}"
        """A prefix, and itself a name that may be used for an exchange, a topic and a pool."""
        self._names = [self.unique]

    def name(self, what: str) -> str:
        """A name of this test's own for an exchange, a queue, a pool or a topic."""
        name = f"{self.unique}.{what}"
        if name not in self._names:
            self._names.append(name)
        return name

    def clean_up(self) -> None:
        """Delete every queue and exchange under the names that were handed out."""
        queues = [q for name in self._names for q in (name, *(f"{name}.{p}" for p in PRIORITIES))]
        with kombu.Connection(self.amqp_url, connect_timeout=60) as connection:
            for queue in queues:
                with suppress(*connection.channel_errors), connection.channel() as channel:
                    channel.queue_delete(queue)
            for exchange in self._names:
                with suppress(*connection.channel_errors), connection.channel() as channel:
                    channel.exchange_delete(exchange)


@pytest.fixture
def broker() -> Iterator[Broker]:
    """RabbitMQ, with names of this test's own."""
    broker = Broker(_service_url("rabbitmq"))
    try:
        yield broker
    finally:
        broker.clean_up()


@pytest.fixture
def own_postgresql() -> Iterator[Server]:
    """A PostgreSQL process of this test's own, to be stopped and killed."""
    with private_postgresql() as server:
        yield server


@pytest.fixture
def own_mariadb() -> Iterator[Server]:
    """A MariaDB process of this test's own, to be configured."""
    with private_mariadb() as server:
        yield server


@pytest.fixture
def own_rabbitmq() -> Iterator[Server]:
    """A RabbitMQ process of this test's own, to be stopped and killed."""
    with private_rabbitmq() as server:
        yield server


@pytest.fixture
def own_nats() -> Iterator[Server]:
    """A NATS with JetStream of this test's own, to be stopped and killed."""
    with private_nats() as server:
        yield server
