# SPDX-License-Identifier: Apache-2.0
"""The permissions of the example configurations suffice, on each NATS server and for each form of its subjects."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from nats.js.api import StreamConfig
from oslo_config import cfg

from tests.functional.log.jetstream_streams import PARTITION, change, make_outlet, snapshot
from tests.functional.log.publishing import publish
from tests.functional.security.provider_accounts import FILE, STREAM, USERS
from tests.functional.sources.jetstream import Dcm, cloud_event, dcm_of, reading
from tests.functional.sources.listening import Engine
from tests.services.servers import Server, nats_forms, private_nats
from tests.waiting import PATIENCE_SECONDS, deadline, wait_until
from watcher_sync.client.log import LogReader
from watcher_sync.conf import opts
from watcher_sync.extensions.federation.source.listing import list_ids
from watcher_sync.extensions.federation.source.log_options import LOG_OPTIONS
from watcher_sync.extensions.federation.source.log_source import FederationLogSource

LOG_FILE = FILE.with_name("nats-server-log.conf")
LOG = f"watcher-sync-{PARTITION}"

Serve = Callable[[Path], AbstractContextManager[Server]]


@pytest.fixture(params=nats_forms())
def serve(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Serve:
    """Starts a server with a file, word for word."""
    program, form = request.param
    for user in (*USERS, "outlet", "reader"):
        monkeypatch.setenv(f"{user.upper()}_PASSWORD", f"pw-{user}")
    monkeypatch.setenv("NATS_STORE_DIR", str(tmp_path / "jetstream"))

    def start(file: Path) -> AbstractContextManager[Server]:
        copy = tmp_path / file.name
        copy.write_text(f"{file.read_text()}\n{form}\n")
        return private_nats(copy, program)

    return start


def test_the_source_acknowledges_what_it_has_consumed(serve: Serve) -> None:
    engine = Engine(acks=True)
    user = {"user": "watcher_sync", "password": "pw-watcher_sync"}
    with serve(FILE) as server, dcm_of(server.url, user="dcm", password="pw-dcm") as dcm:
        dcm.do(dcm.js.add_stream(StreamConfig(name=STREAM, subjects=["dcm.providers.*.*"])))
        with reading(engine, server.url, stream=STREAM, subject="dcm.providers.*.*", **user) as source:
            dcm.publish(*map(cloud_event, range(20)), subject="dcm.providers.acm.vm")
            wait_until(lambda: len(engine.events) == 20)
            wait_until(lambda: acknowledged(dcm) == (20, 0, 0), what="all to be acknowledged, and none to come twice")
            begin = source.cursor_at("first")
        with reading(engine, server.url, cursor=begin, stream=STREAM, subject="dcm.providers.*.*", **user):
            wait_until(lambda: len(engine.events) == 40, what="all from the begin")
            wait_until(lambda: acknowledged(dcm) == (20, 0, 0), what="all to be acknowledged")


def acknowledged(dcm: Dcm) -> tuple[int, int, int]:
    """Of the source's consumer: the last of all that are acknowledged, how many are not, and how many came twice."""
    found = dcm.do(dcm.js.consumer_info(STREAM, "watcher-sync"))
    return found.ack_floor.stream_seq, found.num_ack_pending, found.num_redelivered


def test_the_outlet_publishes_and_cleans_the_model_and_readers_follow(serve: Serve, tmp_path: Path) -> None:
    with serve(LOG_FILE) as server:
        outlet = make_outlet([server.url], LOG, subject_prefix="watcher-sync", user="outlet", password="pw-outlet")
        outlet.open({})
        publish(outlet, [*snapshot(1, "gone", "a"), change(2, "b")])
        publish(outlet, snapshot(2, "a", "b"))
        publish(outlet, [change(3, "c"), change(4, "c")])
        with LogReader([server.url], LOG, user="reader", password="pw-reader") as reader:
            entries = reader.read(timeout=deadline(PATIENCE_SECONDS))
            found = list(itertools.takewhile(lambda each: each.change != "snapshot_end", entries))
            publish(outlet, [change(5, "d")])
            assert next(entries).id == "d"
            position = {PARTITION: ("e", 4, 11)}
            assert [each.id for each in itertools.islice(reader.read(position), 1)] == ["d"]
        assert {each.id for each in found if each.kind} == {"a", "b", "c"}
        outlet.close()
        conf = follower(tmp_path, server)
        FederationLogSource("north", conf).probe()
        listed = list_ids(conf, "north", ["instance"], time.monotonic() + deadline(PATIENCE_SECONDS))
    assert listed.ids == {"instance": {"a", "b", "c", "d"}}


def follower(folder: Path, server: Server) -> cfg.ConfigOpts:
    """The configuration of an installation that follows the log."""
    file = folder / "c.conf"
    options = {"driver": "federation_log", "servers": server.url, "stream": LOG} | {
        "user": "reader",
        "password": "pw-reader",
    }
    lines = ["[engine]", "enabled_sources = north", "[source_north]", *(f"{k} = {v}" for k, v in options.items())]
    file.write_text("\n".join(lines))
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    conf([], default_config_files=[str(file)])
    opts.register_source(conf, "north", LOG_OPTIONS)
    return conf
