# SPDX-License-Identifier: Apache-2.0
"""The driver ``federation``: its options, its position, and who may bring its events."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from oslo_config import cfg

from tests.waiting import deadline, wait_until
from watcher_sync.conf import opts
from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.extensions.federation.source.source import FederationSource
from watcher_sync.extensions.federation.source.states import read_cursor
from watcher_sync.sources.base import SourceState

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def made(tmp_path: Path, cursor: str | None = None, more: str = "", **options: Any) -> FederationSource:
    values = {"endpoint": "https://north.example.com", **options}
    lines = [f"{name} = {value}" for name, value in values.items() if value is not None]
    file = tmp_path / "c.conf"
    file.write_text("\n".join(["[engine]", "enabled_sources = north,south", "[source_north]", *lines, more]))
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    conf([], default_config_files=[str(file)])
    opts.register_source(conf, "north", FederationSource.options)
    return FederationSource("north", conf, cursor=cursor)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"endpoint": None}, "endpoint: not set"),
        ({"endpoint": "north"}, "endpoint: no URL"),
        ({"site": "a:b"}, "site: 'a:b' is not"),
        ({"auth_url": "https://k"}, "username, password: not set, but auth_url is"),
        ({"username": "u"}, "auth_url: not set"),
        ({"auth_url": "https://k", "application_credential_id": "i"}, "application_credential_secret: not set"),
        ({"keyfile": "k"}, "certfile: not set"),
        (
            {"more": "[source_south]\ndriver = federation\nsite = north"},
            r"site: north is the site of \[source_south\], too",
        ),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        made(tmp_path, **options)


def test_the_site_is_the_name_of_the_source_by_default(tmp_path: Path) -> None:
    assert made(tmp_path).settings.site == "north"
    assert made(tmp_path, site="n1").settings.site == "n1"


def test_the_cursor_is_the_last_position_of_committed_events(tmp_path: Path) -> None:
    source = made(tmp_path, cursor="7")
    events = [Event(id=f"{p}", type="federation.pod.changed", source="north", position=p) for p in (3, None, 5, None)]
    assert source.cursor(events) == "5"
    assert source.cursor(events[1:2]) is None


def test_another_release_begins_with_a_listing_and_the_same_one_continues() -> None:
    for text in ("7@e", "7@e@2@9", "7"):
        listing = read_cursor(text).read_by("a")
        assert (listing.sequence, listing.epoch, listing.number) == (
            None,
            *msgspec.structs.astuple(read_cursor(text))[1:3],
        )
        stored = read_cursor(msgspec.structs.replace(listing, sequence=8).text())
        assert stored.read_by("a") == stored
        assert stored.sequence == 8
        assert stored.read_by("b").sequence is None
        assert stored.at_epoch("f", NOON).readers == "a"


@pytest.mark.parametrize(
    ("cursor", "is_first"), [(None, True), ("", True), ("@e", True), ("7", False), ("0@e", False), ("7@e@@@a", False)]
)
def test_the_first_contact_lasts_until_a_whole_listing_is_stored(
    tmp_path: Path, cursor: str | None, is_first: bool
) -> None:
    source = made(tmp_path, cursor=cursor, endpoint="http://127.0.0.1:1")
    source.start(lambda *_: None)
    try:
        assert source._follower is not None
        assert source._follower.is_first_contact == is_first
    finally:
        source.stop(time.monotonic() + deadline(30))


def test_a_source_is_rewound_to_a_new_listing(tmp_path: Path) -> None:
    assert [made(tmp_path, cursor=each).cursor_at("first") for each in (None, "7", "7@e@@@a")] == ["0", "7", "7@e"]
    with pytest.raises(ConfigError, match="the only place is first"):
        made(tmp_path).cursor_at("2026-01-01")


def test_a_region_that_does_not_answer_is_the_state_of_the_source_and_the_error_of_a_probe(tmp_path: Path) -> None:
    source = made(tmp_path, endpoint="http://127.0.0.1:1")
    assert source.status().state is SourceState.STARTING
    with pytest.raises(SourceError, match=r"127\.0\.0\.1"):
        source.probe()
    source.start(lambda *_: None)
    wait_until(lambda: source.status().detail)
    assert source.status().state is SourceState.DISCONNECTED
    source.stop(time.monotonic() + deadline(30))
    assert source.status().state is SourceState.STOPPED
