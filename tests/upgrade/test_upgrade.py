# SPDX-License-Identifier: Apache-2.0
"""The steps of the page on upgrades, forward, back and forward again, while a cloud publishes and clients read."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.faults.storm.readers import FeedReader
from tests.faults.storm.verdict import Verdict, check_feed
from tests.functional.engine.driving import Line
from tests.functional.security import documented
from tests.functional.webhooks.driving import OPTIONS, recording
from tests.upgrade.observers import Asker, Pauses, Subscriber
from tests.upgrade.operating import PATIENCE_SECONDS, OperatedInstallation
from tests.upgrade.releases import Release, build_both
from tests.waiting import Deadline, wait_until
from watcher_sync.testing.nova.cloud import CloudSimulator

RATE = 40
"""Events a second."""

MOST_EVENTS = 60_000
SUBSCRIPTIONS = 200

_HEAD = sa.text("SELECT seq FROM journal_head")

pytestmark = pytest.mark.timeout(2400)


class Upgrade:
    """Follows the page, and names each step to those who measure."""

    def __init__(self, site: OperatedInstallation, measured: list[Pauses]) -> None:
        _notes, self._install, self._schema, self._restart, self._contract = documented.steps("admin/upgrade.rst")
        self._site = site
        self._measured = measured

    def step(self, name: str) -> None:
        """Let commits happen in the step before, and begin another one."""
        head = self._site.head()
        wait_until(lambda: self._site.head() > head + RATE, PATIENCE_SECONDS, "commits")
        for pauses in self._measured:
            pauses.step = name

    def replace(self, release: Release) -> None:
        """Install a release in the place of the other one."""
        self._site.release = release
        (command,) = self._install[1]
        self._site.execute(command)

    def install(self, release: Release) -> None:
        self.step(f"install {release.version}")
        self.replace(release)

    def upgrade_schema(self) -> None:
        """The upgrade check warns of access without authentication, with status 1."""
        self.step("schema")
        plan, sync, check = self._schema[1]
        assert self._site.execute(plan).startswith("migrate to ")
        assert "The schema is at revision" in self._site.execute(sync)
        assert "Failure" not in self._site.execute(check, 0, 1)

    def restart(self) -> None:
        for which in self._restart[0].rstrip(".").partition(": ")[2].split(", "):
            self.step(f"restart {which} with {self._site.release.version}")
            self._site.restart(which)

    def contract(self) -> None:
        self.step("contract")
        (command,) = self._contract[1]
        output = self._site.execute(command)
        assert "are refused from now on" in output
        assert "of release" not in output, output


def passes(check: Callable[[], None]) -> None:
    """Wait until a check passes."""
    limit = Deadline(60)
    while True:
        is_last = limit.is_over
        try:
            return check()
        except AssertionError:
            if is_last:
                raise
        time.sleep(0.2)


def test_nothing_is_lost_by_an_upgrade_the_way_back_and_the_upgrade_again(
    tmp_path: Path, postgresql_url: str, line: Callable[[str], Line], figure: Callable[[str], None]
) -> None:
    older, newer = build_both(tmp_path)
    nova = line("nova")
    options = {
        "engine.enabled_sources": "nova", "engine.standby": "true", "api.auth_strategy": "noauth", "api.write_rate": 0,
        "outlet_watch.enabled": "false", "monitoring.status_interval": 1, **nova.source("nova"), **OPTIONS,
    }  # fmt: skip
    cloud = CloudSimulator(seed=47, hosts=20, instances=400)
    with (
        OperatedInstallation(tmp_path, postgresql_url, options, older) as site,
        recording(Subscriber()) as subscriber,
        site.store.database.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
    ):
        site.manage("db_sync", config=site.config_path)
        site.start_all()
        nova.publish(cloud.populate())
        wait_until(lambda: site.has_instances(SUBSCRIPTIONS), PATIENCE_SECONDS, "instances")
        subscriber.subscribe(site.client, SUBSCRIPTIONS)
        url = str(site.client.base_url)
        asker, feed = Asker(url), FeedReader(url)
        feed.start()
        with (
            nova.publishing(cloud.events(), rate=RATE, most=MOST_EVENTS),
            Pauses(lambda: connection.execute(_HEAD).scalar()) as commits,
            Pauses(asker.ask) as answers,
        ):
            upgrade = Upgrade(site, [commits, answers])
            upgrade.install(newer)
            upgrade.upgrade_schema()
            upgrade.restart()
            upgrade.install(older)  # the way back
            upgrade.restart()
            upgrade.install(newer)
            upgrade.restart()
            upgrade.contract()
            upgrade.step("end")
        passes(lambda: site.check_tables(cloud.reported()))
        passes(lambda: subscriber.check(site.client))
        verdict = Verdict()
        rows = site.rows()
        check_feed(verdict, feed, rows)
        feed.stop()
        figure(f"commits paused for {commits.described()}")
        figure(f"answers of the API paused for {answers.described()}")
        figure(
            f"{len(rows)} changes, {len(feed.rows)} in the feed with {feed.failures} repeated requests; "
            f"{subscriber.total} webhooks, {subscriber.repeats} of them repeats; {asker.answered} answers"
        )
        assert verdict.failures == feed.gone == asker.refused == []
        site.check_journal()
        assert site.manage("quarantine", "list", config=site.config_path) == ""
        releases = [row["release"] for row in site.engine_rows().values()]
        assert [*releases, site.client.get("/v1").json()["version"]["release"]] == [newer.version] * 3
        assert [each.log for each in site.engines if each.logged("Traceback")] == []
        upgrade.replace(older)
        refused = site.start("engine-1")
        assert refused.wait(PATIENCE_SECONDS) == 1
        assert refused.logged("install the newer release") == len(refused.log.splitlines()) == 1
