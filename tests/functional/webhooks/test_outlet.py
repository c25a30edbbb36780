# SPDX-License-Identifier: Apache-2.0
"""The executable: its signals, its start, and what arrives when its processes are killed or frozen."""

from __future__ import annotations

import collections
import contextlib
import datetime
import signal
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.functional.engine.clocks import MachineClock
from tests.functional.engine.driving import EngineProcess, Installation
from tests.functional.webhooks.driving import BOX, OPTIONS, Record, check, outlet, recording
from tests.functional.webhooks.receivers import unused_port
from tests.functional.webhooks.subscribing import Instances, subscribe_all
from tests.functional.webhooks.test_odd_answers import ODD
from tests.services.servers import Server, free_port
from tests.waiting import seconds_until, wait_until
from watcher_sync.extensions.webhooks.rows import DELIVERED, SHARDS
from watcher_sync.extensions.webhooks.subscriptions import Subscriptions

COUNT = 40


@pytest.fixture
def site(install: Callable[..., Installation], sqlite_url: str) -> Installation:
    made: Installation = install(sqlite_url)
    made.options |= OPTIONS
    made.upgrade()
    return made


def subscribed(site: Installation, record: Record, count: int = COUNT) -> Instances:
    """Instances with one subscription each."""
    instances = Instances(site.store)
    instances.write(range(count))
    subscribe_all(site.store, [record.url] * count, box=BOX)
    return instances


def wait_for_all(record: Record, instances: Instances, seconds: float = 180.0) -> float:
    return seconds_until(lambda: not record.lacks(instances.committed), seconds, "the arrival of all changes")


def delivered(site: Installation) -> set[str]:
    """The ids of the deliveries whose success is stored."""
    t = site.store.tables.webhook_deliveries
    with site.store.database.connect() as connection:
        return set(connection.execute(sa.select(t.c.webhook_id).where(t.c.state == DELIVERED)).scalars())


def test_a_change_arrives_and_sigterm_ends_the_outlet_without_a_loss(
    site: Installation, figure: Callable[[str], None]
) -> None:
    site.options["database.lease_time"] = 600
    count = 200  # ten at a time: a pause of the machine must not let the last one begin before the signal
    with recording(seconds=1.0) as record:
        instances = subscribed(site, record, count)
        process = outlet(site, site.config())
        process.wait_for_log(f"took {SHARDS} shards with {count} subscriptions")
        instances.write(range(count))
        wait_until(lambda: record.total > 10)
        status, seconds = process.terminate()
        figure(f"ended after {seconds:.2f} s, {record.total} of {count} deliveries had arrived")
        assert status == 0, process.log
        assert seconds < 50
        assert record.total < count
        ended = delivered(site)
        assert ended
        record.seconds = 0.0
        outlet(site, site.config())
        # What had ended is not repeated, and no lease time passes: the shards were given back.
        wait_for_all(record, instances)
        check(record, instances, range(count))
        times = collections.Counter(each.webhook_id for found in record.arrivals.values() for each in found)
        assert {times[webhook_id] for webhook_id in ended} == {1}


def test_sighup_applies_allowed_networks(site: Installation) -> None:
    with recording() as record:
        instances = subscribed(site, record, 2)
        config = site.config(outlet_webhook__allowed_networks="10.9.8.0/24")
        process = outlet(site, config)
        process.wait_for_log("subscriptions")
        instances.write([0])
        subscriptions = Subscriptions(site.store.database, site.store.tables)

        def attempts() -> list[dict[str, object]]:
            row = subscriptions.find("i0", "s")
            return [a for d in subscriptions.deliveries(row[0].id) for a in d.attempts] if row else []

        wait_until(attempts)
        assert "refused" in str(attempts()[0]["detail"])
        site.write_config(config, {"outlet_webhook.allowed_networks": "127.0.0.0/8"})
        process.signal(signal.SIGHUP)
        process.wait_for_log("outlet_webhook.allowed_networks")
        # The refused delivery may have failed once more meanwhile, and is then sent after minutes only.
        instances.write([1])
        wait_until(lambda: not record.lacks({"i1": instances.committed["i1"]}), what="a delivery")
        workers = process.workers
        site.write_config(config, {"outlet_webhook.allowed_networks": "nonsense"})
        process.signal(signal.SIGHUP)
        process.wait_for_log("The configuration was not reloaded")
        assert process.workers == workers


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("allowed_networks", "nonsense", "allowed_networks"),
        ("secret_keys", "short", "secret_keys"),
        ("ca_file", "/nowhere", "ca_file"),
        ("enabled", "false", "there is nothing to do"),
    ],
)
def test_an_option_that_cannot_work_ends_the_start_with_status_2(
    site: Installation, option: str, value: str, message: str
) -> None:
    done = site.run("watcher-sync-outlet", config=site.config(**{f"outlet_webhook__{option}": value}))
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "short" not in done.stderr
    assert "Traceback" not in done.stderr


@contextlib.contextmanager
def second_port_taken() -> Iterator[int]:
    """A port that is in use, after one that is free and that systems assign to no outgoing connection."""
    while True:
        with socket.socket() as free, socket.socket() as taken:
            port = free_port() + 1
            try:
                free.bind(("127.0.0.1", port - 1))
                taken.bind(("127.0.0.1", port))
            except OSError:
                continue
            free.close()
            taken.listen()
            yield port
            return


def test_the_ports_of_the_workers_are_checked_before_they_start(site: Installation) -> None:
    def refused(monitoring_port: int, workers: int) -> str:
        """What the outlet says of these options."""
        options = {"outlet_webhook__monitoring_port": monitoring_port, "outlet_webhook__workers": workers}
        done = site.run("watcher-sync-outlet", config=site.config(**options))
        assert done.returncode == 2, done.stderr
        assert "[outlet_webhook] monitoring_port, workers: " in done.stderr
        return done.stderr

    assert "end at 65537, above 65535" in refused(65_530, 8)
    with second_port_taken() as port:
        said = refused(port - 1, 2)
        assert f"port {port}: Address already in use" in said
    config = site.config(outlet_webhook__monitoring_port=9000, outlet_webhook__workers=4, monitoring__port=9002)
    done = site.run("watcher-sync-outlet", config=config)
    assert (done.returncode, "9002 is also [monitoring] port" in done.stderr) == (2, True), done.stderr


def test_a_database_that_is_away_is_waited_for(install: Callable[..., Installation], own_postgresql: Server) -> None:
    site: Installation = install(own_postgresql.url)
    site.options |= OPTIONS
    site.upgrade()
    with recording() as record:
        instances = subscribed(site, record, 5)
        site.store.close()
        site.store.database.dispose()
        own_postgresql.stop()
        process = outlet(site, site.config())
        process.wait_for_log("The database is unavailable")
        own_postgresql.start()
        process.wait_for_log("took 32 shards")
        instances.write(range(5))
        wait_for_all(record, instances)
        # And once more while it works: nothing is lost, and no other worker is needed.
        site.store.close()
        site.store.database.dispose()
        own_postgresql.kill()
        process.wait_for_log("the lease cannot be renewed")
        own_postgresql.start()
        instances.write(range(5))
        wait_for_all(record, instances)
        check(record, instances, range(5))
        assert process.running


@pytest.mark.parametrize(("kills", "count"), [(2, COUNT), pytest.param(5, 100, marks=pytest.mark.rare)])
def test_every_change_arrives_in_order_though_the_outlet_is_killed_again_and_again(
    site: Installation, figure: Callable[[str], None], kills: int, count: int
) -> None:
    with recording(seconds=0.02) as record:
        instances = subscribed(site, record, count)
        config = site.config()
        process = outlet(site, config)
        process.wait_for_log("took 32 shards")
        for _ in range(kills):
            before = record.total
            instances.write(range(count))
            wait_until(lambda before=before: record.total > before + count // 4)
            process.kill()
            instances.write(range(count // 2))  # while no outlet runs
            process = outlet(site, config)
        wait_for_all(record, instances)
        check(record, instances, range(count))
        figure(f"{kills} kills, {record.total} requests, {record.repeats} of them repeats")


def pair(site: Installation) -> tuple[EngineProcess, EngineProcess]:
    """Two outlets that share the subscriptions."""
    # A pause of one of them should not end its lease.
    config = site.config(database__lease_time=8)
    a = outlet(site, config)
    a.wait_for_log("took 32 shards")
    b = outlet(site, config)
    b.wait_for_log("shards with")
    t = site.store.tables.outlet_shards

    def is_divided() -> bool:
        with site.store.database.connect() as connection:
            owners = connection.execute(sa.select(t.c.owner)).scalars()
            return sorted(collections.Counter(owners).values()) == [SHARDS // 2] * 2

    wait_until(is_divided, what="16 shards for each of them")
    return a, b


@pytest.mark.rare
def test_the_subscriptions_of_a_killed_outlet_are_taken_over(site: Installation, figure: Callable[[str], None]) -> None:
    with recording(seconds=0.01) as record:
        instances = subscribed(site, record)
        a, _b = pair(site)
        instances.write(range(COUNT))
        wait_until(lambda: record.total > COUNT // 4)
        a.kill()
        instances.write(range(COUNT))
        seconds = wait_for_all(record, instances)
        figure(f"all changes arrived {seconds:.1f} s after the kill")
        check(record, instances, range(COUNT))


def test_an_outlet_that_wakes_after_its_lease_delivers_nothing_out_of_order(
    install: Callable[..., Installation], postgresql_url: str, figure: Callable[[str], None]
) -> None:
    # A frozen process may have a transaction open. SQLite then lets no other process write.
    site: Installation = install(postgresql_url)
    site.options |= OPTIONS
    site.upgrade()
    with recording(seconds=0.05) as record:
        instances = subscribed(site, record)
        a, _b = pair(site)
        instances.write(range(COUNT))
        wait_until(lambda: record.total > COUNT // 5)
        a.signal_all(signal.SIGSTOP)
        instances.write(range(COUNT))
        wait_for_all(record, instances)  # the other one takes over
        a.signal_all(signal.SIGCONT)
        a.wait_for_log("took over")
        for _ in range(3):
            instances.write(range(COUNT))
            wait_for_all(record, instances)
        check(record, instances, range(COUNT))
        figure(f"{record.total} requests, {record.repeats} of them repeats")


def test_a_callback_without_a_server_is_retried(site: Installation) -> None:
    instances = Instances(site.store)
    instances.write([0])
    subscriptions = Subscriptions(site.store.database, site.store.tables)

    def failures() -> int:
        row = subscriptions.find("i0", "s")
        return row[1].failures if row else 0

    with unused_port() as port:
        subscribe_all(site.store, [f"http://127.0.0.1:{port}/"], box=BOX)
        outlet(site, site.config()).wait_for_log("took 32 shards")
        instances.write([0])
        wait_until(lambda: failures() >= 1)
        wait_until(lambda: failures() >= 2, what="the second attempt")


def test_deliveries_of_an_outlet_whose_clock_is_an_hour_ahead_wait_for_no_hour(
    install: Callable[..., Installation], postgresql_url: str, tmp_path: Path
) -> None:
    """Neither those that it planned before it had read the database's clock, nor those that another one takes over."""
    site: Installation = install(postgresql_url)
    site.options |= OPTIONS
    site.upgrade()
    right, clock = dict(site.environment), MachineClock(tmp_path)
    with recording() as record:
        instances = subscribed(site, record, 2)
        record.paused.set()
        clock.set(3600)
        site.environment = right | clock.environment
        instances.write(range(2))  # it plans them as soon as it has loaded the subscriptions
        wrong = outlet(site, site.config())
        wait_until(lambda: record.total >= 2, what="two requests")
        wrong.wait_for_log("this machine's clock is +3600 s ahead of the database's")
        wrong.kill()
        site.environment = right
        record.paused.clear()
        with site.store.database.connect() as connection:
            ahead = connection.execute(sa.select(sa.func.max(site.store.tables.webhook_deliveries.c.next_attempt_at)))
            assert ahead.scalar_one() < datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=30)
        outlet(site, site.config())
        wait_until(lambda: len(delivered(site)) >= 2, what="the deliveries of the outlet that took over")
        check(record, instances, range(2))


def test_odd_answers_of_success_are_stored_as_delivered_after_one_attempt(
    site: Installation,
) -> None:
    with answering_oddly() as (url, requests):
        instances = Instances(site.store)
        instances.write(range(len(ODD)))
        subscribe_all(site.store, [f"{url}/{number}" for number in range(len(ODD))], box=BOX)
        process = outlet(site, site.config())
        process.wait_for_log(f"with {len(ODD)} subscriptions")
        instances.write(range(len(ODD)))
        wait_until(lambda: len(delivered(site)) == len(ODD), what="the success of each delivery")
        assert sorted(requests) == sorted(f"POST /{number} HTTP/1.1" for number in range(len(ODD)))


@contextlib.contextmanager
def answering_oddly() -> Iterator[tuple[str, list[str]]]:
    """A receiver that answers the request for each number with one of the odd answers, and ends its connection.

    :returns: its URL, and the first lines of its requests.
    """
    requests: list[str] = []

    class Receiver(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            first = self.rfile.readline().decode().strip()
            size = 0
            while line := self.rfile.readline().strip():
                name, _, value = line.partition(b":")
                size = int(value) if name.lower() == b"content-length" else size
            self.rfile.read(size)
            requests.append(first)
            self.wfile.write(list(ODD.values())[int(first.split()[1].strip("/"))])

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Receiver) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", requests
        finally:
            server.shutdown()
            thread.join()
