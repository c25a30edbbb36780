# SPDX-License-Identifier: Apache-2.0
"""A region behind a real Keystone: tokens that expire and tokens that are revoked, while changes come all the time."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.functional.engine.driving import Installation
from tests.functional.security.keystone import ADMIN_PASSWORD, Keystone, User, running_keystone
from tests.functional.sources.federated import Member, Sampler, is_union, quantile, sequence_of
from tests.simulated import nova
from tests.waiting import deadline, wait_until
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.events import Event
from watcher_sync.model.changes import Upsert, Version

pytestmark = [pytest.mark.rare, pytest.mark.timeout(400)]

SITE = "north"
LIFE_SECONDS = 30
GRACE_SECONDS = 30
"""A region accepts a token so long after it has expired."""


@contextlib.contextmanager
def writing(region: Member) -> Iterator[None]:
    """Write ten changes a second meanwhile."""
    stopping = threading.Event()

    def run() -> None:
        writer = DirectWriter(region.site.store, nova())
        for number in itertools.count(1):
            if stopping.wait(0.1):
                return
            with writer.begin() as cycle:
                entity_id, facets = f"a{number % 20}", {"state": {"name": f"name {number}"}}
                change = Upsert("aggregate", entity_id, Version(f"{number:06d}"), facets)
                cycle.write(Event(id=f"{number}", type="test", source="test"), [change])

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(deadline(30))


def region_behind(keystone: Keystone, install: Callable[..., Installation], folder: Path) -> Member:
    return Member(
        SITE,
        install(f"sqlite:///{folder / 'region.sqlite'}"),
        api__auth_strategy="keystone",
        outlet_watch__auth_strategy="keystone",
        keystone_authtoken__auth_type="password",
        keystone_authtoken__auth_url=keystone.url,
        keystone_authtoken__www_authenticate_uri=keystone.url,
        keystone_authtoken__username="admin",
        keystone_authtoken__password=ADMIN_PASSWORD,
        keystone_authtoken__project_name="admin",
        keystone_authtoken__user_domain_id="default",
        keystone_authtoken__project_domain_id="default",
        keystone_authtoken__token_cache_time=1,
    )


def follower_of(region: Member, install: Callable[..., Installation], folder: Path, **account: object) -> Member:
    whole = Member("global", install(f"sqlite:///{folder / 'global.sqlite'}"))
    whole.follow(SITE, region, **account)
    region.start("api", "outlet")
    region.wait_until_serving()
    whole.start("engine")
    whole.processes["engine"].wait_for_log(": connected", 90)
    return whole


def account_in(keystone: Keystone) -> tuple[User, str]:
    """An administrator of a project, and the project."""
    project = keystone.project("federation")
    return keystone.user("follower", project, "admin"), project


def test_a_stream_outlasts_the_tokens_of_a_password_without_a_break(
    install: Callable[..., Installation], tmp_path: Path, figure: Callable[[str], None]
) -> None:
    with running_keystone(tmp_path / "keystone", expiration=LIFE_SECONDS) as keystone:
        user, _ = account_in(keystone)
        region = region_behind(keystone, install, tmp_path)
        whole = follower_of(
            region, install, tmp_path,
            auth_url=keystone.url, username=user.name, password=user.password, project_name="federation",
        )  # fmt: skip
        with Sampler(whole.site.store) as sampler:
            with writing(region):
                # A stream whose token was never replaced ends within this time.
                until = time.monotonic() + LIFE_SECONDS + GRACE_SECONDS + 10  # wait: the life of a token
                wait_until(lambda: time.monotonic() > until, 120)
            wait_until(lambda: is_union(whole, {SITE: region}), what="the same entities")
            rows = region.site.rows()
            wait_until(lambda: sampler.has(SITE, rows[-1]), what="the last change")
            lags = sampler.lags(SITE, rows)
        engine = whole.processes["engine"]
        assert engine.logged(": connected") == 1, engine.log[-3000:]
        assert not engine.logged("disconnected"), engine.log[-3000:]
        assert len(rows) > 200
        figure(f"tokens of {LIFE_SECONDS} s: {len(rows)} changes, lag p99 {quantile(lags, 0.99):.3f} s")
        assert quantile(lags, 0.5) < 4, "the changes came without the stream"


def test_revoked_tokens_of_an_application_credential_are_replaced_without_a_gap(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    with running_keystone(tmp_path / "keystone") as keystone:
        user, project = account_in(keystone)
        credential_id, secret = keystone.application_credential(user, project)
        region = region_behind(keystone, install, tmp_path)
        whole = follower_of(
            region, install, tmp_path,
            auth_url=keystone.url, application_credential_id=credential_id, application_credential_secret=secret,
        )  # fmt: skip
        with writing(region):
            for number in range(2):
                keystone.change_password(user, f"another-{number}")
                region.kill("outlet")  # the stream has to begin with the token that was revoked, or with a new one
                region.start("outlet")
                head = region.site.head()
                wait_until(lambda: sequence_of(whole.site.store.cursors()[SITE]) > head + 20, 90, "further changes")  # noqa: B023
                wait_until(lambda: whole.source_rows()[SITE].state == "connected", 60, "the stream")
        wait_until(lambda: is_union(whole, {SITE: region}), 60, "the same entities")
        assert whole.processes["engine"].logged("listing the region") == 1


def test_a_reader_of_the_system_follows_the_whole_region(install: Callable[..., Installation], tmp_path: Path) -> None:
    with running_keystone(tmp_path / "keystone") as keystone:
        user = keystone.user("follower")
        keystone.grant(user, "reader", None)
        region = region_behind(keystone, install, tmp_path)
        whole = follower_of(
            region, install, tmp_path, auth_url=keystone.url, username=user.name, password=user.password
        )
        with writing(region):
            head = region.site.head()
            wait_until(lambda: sequence_of(whole.site.store.cursors()[SITE]) > head + 20, 90, "the changes")
        wait_until(lambda: is_union(whole, {SITE: region}), 60, "the same entities")
        wait_until(lambda: "no watch topic federation" in (whole.source_rows()[SITE].detail or ""), 30, "the detail")
        engine = whole.processes["engine"]
        assert whole.source_rows()[SITE].state == "connected"
        assert engine.logged("may not create it") == 1, engine.log[-3000:]
        assert not engine.logged("disconnected"), engine.log[-3000:]
        _create_topic(keystone, region)
        wait_until(lambda: not whole.source_rows()[SITE].detail, 120, "the stream")
        assert engine.logged("listing the region") == 1


def _create_topic(keystone: Keystone, region: Member) -> None:
    """As an administrator of the region."""
    project = keystone.project("operators")
    token = keystone.token(keystone.user("operator", project, "admin"), project)
    anything = {"group": "*", "kind": "*", "name": "*", "type": ["created", "updated", "deleted"]}
    topic = {"name": "federation", "title": "federation", "spec": {"filters": [anything]}}
    answer = httpx.post(
        f"{region.url}/management/v1alpha1/watchtopics", json=topic, headers={"X-Auth-Token": token},
        timeout=deadline(30),
    )  # fmt: skip
    assert answer.status_code == 201, answer.text
