# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-outlet`` with the watch stream: its start, its signals, its strategies of authentication."""

from __future__ import annotations

import signal
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import jwt
import pytest

from tests.functional.api.conftest import free_port
from tests.functional.engine.driving import EngineProcess, Installation
from tests.functional.watch.clients import SELF_LINK, WatchClient, channel_to
from tests.functional.webhooks.driving import outlet
from tests.functional.webhooks.subscribing import Instances
from tests.waiting import deadline, wait_until
from watcher_sync.extensions.watch.model.topics import parse
from watcher_sync.extensions.watch.topic_rows import WatchPositions, WatchTopics

SECRET = "0123456789abcdef0123456789abcdef"
CODE = grpc.StatusCode


@pytest.fixture
def site(install: Callable[..., Installation], one_migrated_url: str) -> Installation:
    made = install(one_migrated_url)
    made.options |= {
        "outlet_webhook.enabled": "false",
        "outlet_watch.port": free_port(),
        "outlet_watch.auth_strategy": "noauth",
        "database.journal_poll_interval": 0.02,
    }
    return made


@pytest.fixture
def connected(site: Installation) -> Iterator[Callable[[], grpc.Channel]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(channel_to(int(str(site.options["outlet_watch.port"]))))


def add_topic(site: Installation, name: str = "all", project_id: str | None = None) -> str:
    document = {"name": name, "spec": {"filters": [{"group": "compute", "kind": "Instance"}]}}
    topics = WatchTopics(site.store.database, site.store.tables)
    return topics.create(parse(document, str(uuid.uuid4()), project_id=project_id)).id


def started(site: Installation, **more: object) -> EngineProcess:
    process = outlet(site, site.config(**more))
    process.wait_for_log("watch: listening on")
    return process


def test_changes_arrive_once_though_the_outlet_is_stopped_and_killed(
    site: Installation, connected: Callable[[], grpc.Channel], figure: Callable[[str], None]
) -> None:
    add_topic(site)
    instances = Instances(site.store)
    seen: list[int] = []
    for way in (signal.SIGTERM, signal.SIGKILL):
        process = started(site)
        client = WatchClient(connected()).subscribe(after=seen[-1] if seen else 0)
        head = instances.write(range(20))
        client.wait_for(head - len(seen))
        assert client.events[-1].payload.name.startswith("n")
        seen += client.sequences
        if way is signal.SIGTERM:
            status, seconds = process.terminate()
            figure(f"ended after {seconds:.2f} s")
            assert status == 0, process.log
            assert seconds < 50
        else:
            process.signal_all(way)
        assert client.wait_for_status() == CODE.UNAVAILABLE
        instances.write(range(7))
    assert seen == list(range(1, len(seen) + 1))


def test_a_stock_client_goes_on_where_rest_ended(site: Installation, connected: Callable[[], grpc.Channel]) -> None:
    topic_id = add_topic(site)
    head = Instances(site.store).write(range(10))
    WatchPositions(site.store.database, site.store.tables).remember(topic_id, "", "noauth", 4)
    started(site)
    client = WatchClient(connected()).subscribe()
    client.wait_for(head - 4)
    assert client.sequences == list(range(5, head + 1))
    client.close()


def test_topics_that_come_and_go_are_seen(site: Installation, connected: Callable[[], grpc.Channel]) -> None:
    started(site)
    channel = connected()
    assert WatchClient(channel).subscribe().wait_for_status() == CODE.NOT_FOUND
    topic_id = add_topic(site)
    client = WatchClient(channel).subscribe(after=0)
    client.wait_for(Instances(site.store).write([1]))
    WatchTopics(site.store.database, site.store.tables).delete(topic_id)
    assert client.wait_for_status() == CODE.NOT_FOUND


def token(**claims: object) -> str:
    content = {"sub": "u1", "exp": time.time() + 300, "roles": ["reader"], "project_id": "p", "iss": "us"}
    return jwt.encode(content | claims, SECRET, "HS256")


def test_jwts_have_the_rights_of_the_policy(
    site: Installation, connected: Callable[[], grpc.Channel], tmp_path: Path
) -> None:
    key = tmp_path / "secret"
    key.write_text(SECRET + "\n")
    add_topic(site, "all", "p")
    add_topic(site, "foreign", "other")
    started(
        site,
        outlet_watch__auth_strategy="jwt",
        outlet_watch__jwt_key_files=key,
        outlet_watch__jwt_algorithms="HS256",
        outlet_watch__jwt_issuer="us",
    )
    channel = connected()
    head = Instances(site.store).write(range(3))
    mine = WatchClient(channel).subscribe(token(), after=0)
    mine.wait_for(head)
    foreign = SELF_LINK.replace("all", "foreign")
    refused = {
        token(iss="them"): CODE.UNAUTHENTICATED,
        token(exp=time.time() - 60): CODE.UNAUTHENTICATED,
        token(roles=["none"]): CODE.PERMISSION_DENIED,
        token(project_id=None): CODE.PERMISSION_DENIED,
        token(project_id="q"): CODE.NOT_FOUND,
    }
    for each, status in refused.items():
        assert WatchClient(channel).subscribe(each).wait_for_status() == status, status
    assert WatchClient(channel).subscribe(token(), self_link=foreign).wait_for_status() == CODE.NOT_FOUND
    admin = WatchClient(channel).subscribe(token(roles=["admin"], project_id="x"), self_link=foreign, after=0)
    admin.wait_for(head)
    for client in (mine, admin):
        client.close()


def test_webhooks_and_the_watch_stream_run_side_by_side(
    site: Installation, connected: Callable[[], grpc.Channel]
) -> None:
    port = free_port()
    process = outlet(site, site.config(outlet_webhook__enabled="true", outlet_watch__monitoring_port=port))
    process.wait_for_log("watch: listening on")
    process.wait_for_log("took 32 shards")
    add_topic(site)
    client = WatchClient(connected()).subscribe(after=0)
    head = Instances(site.store).write([1])
    client.wait_for(head)

    def metrics() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=deadline(60)) as answer:
                return str(answer.read().decode())
        except OSError:  # the port opens after that of the stream
            return ""

    for line in ("streams_subscribed 1.0", f"position {head}.0", "events_total 1.0"):
        wait_until(lambda line=line: f"watcher_sync_watch_{line}" in metrics(), what=line)
    client.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "192.0.2.1"}, "noauth"),
        ({"enabled": "false"}, "there is nothing to do"),
        ({"auth_strategy": "keystone"}, "auth_url"),
        ({"auth_strategy": "jwt"}, "[outlet_watch] jwt_issuer, jwt_audience: neither is set"),
        ({"auth_strategy": "jwt", "jwt_issuer": "us"}, "jwt_key_files"),
        ({"tls_key": "/nowhere"}, "tls_cert"),
        ({"tls_cert": "/nowhere", "tls_key": "/nowhere"}, "/nowhere"),
        ({"first_request_timeout": "10"}, "first_request_timeout"),
    ],
)
def test_an_option_that_cannot_work_ends_the_start_with_status_2(
    install: Callable[..., Installation], sqlite_url: str, options: dict[str, str], message: str
) -> None:
    site = install(sqlite_url)
    site.options |= {"outlet_webhook.enabled": "false", "outlet_watch.auth_strategy": "noauth"}
    config = site.config(**{f"outlet_watch__{name}": value for name, value in options.items()})
    done = site.run("watcher-sync-outlet", config=config)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
