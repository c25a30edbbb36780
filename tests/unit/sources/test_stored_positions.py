# SPDX-License-Identifier: Apache-2.0
"""Whatever text is stored as the position of a source, the source is made, and can be rewound to the first place."""

from __future__ import annotations

import pathlib
from typing import Any, Final

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oslo_config import cfg

from watcher_sync.conf import opts
from watcher_sync.extensions.dcm.source.cursor import StreamCursor
from watcher_sync.extensions.dcm.source.source import NatsJetStreamSource
from watcher_sync.extensions.federation.source.log_source import FederationLogSource
from watcher_sync.extensions.federation.source.region_source import RegionSource
from watcher_sync.extensions.federation.source.source import FederationSource
from watcher_sync.extensions.federation.source.states import RegionCursor, read_cursor
from watcher_sync.extensions.openstack.source.rabbitmq_stream.cursor import RabbitMQCursor
from watcher_sync.extensions.openstack.source.rabbitmq_stream.source import RabbitMQStreamSource
from watcher_sync.sources.base import Source

OPTIONS: Final[dict[type[Source], str]] = {
    FederationSource: "endpoint = https://north.example.com",
    FederationLogSource: "driver = federation_log\nservers = nats://127.0.0.1:1",
    NatsJetStreamSource: "servers = nats://127.0.0.1:1\nstream = s\nsubject = dcm.*\ndurable = d",
    RabbitMQStreamSource: "transport_url = rabbit://u:p@127.0.0.1:1/v",
}
"""The drivers with a position that can be set."""

_NUMBERS: Final = st.sampled_from(["", "7", "\u00b2", "9" * 20, "9" * 4400, "-1", "1e9"])
_POSITIONS: Final = st.one_of(
    st.text(max_size=60),
    st.lists(st.one_of(_NUMBERS, st.text(max_size=9)), max_size=9).map("@".join),
    st.sampled_from(["[" * 9000, "{", "null", "[]"]),
    st.builds(
        lambda start, at: msgspec.json.encode({"stream": "s", "queue": "v watcher-sync", "start": start, "seen": at}),
        st.sampled_from(["first", "9" * 4400, "0001-01-01T00:00:00+23:59", "x", ""]),
        st.sampled_from([[1, 2], [2**64, 1], "x", []]),
    ).map(bytes.decode),
)


def made(folder: pathlib.Path, cls: type[Source], cursor: str | None) -> Any:
    file = folder / "c.conf"
    file.write_text(f"[engine]\nenabled_sources = north\n[source_north]\n{OPTIONS[cls]}\n")
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    conf([], default_config_files=[str(file)])
    opts.register_source(conf, "north", cls.options)
    return cls("north", conf, cursor=cursor)


@pytest.mark.parametrize("cls", OPTIONS)
@settings(deadline=None, max_examples=60)
@given(text=_POSITIONS)
@example("9" * 4400)
@example("1@log/e@" + "9" * 4400)
@example("[" * 9000)
def test_any_stored_text_makes_a_source_that_can_be_rewound(
    tmp_path_factory: pytest.TempPathFactory, cls: type[Source], text: str
) -> None:
    folder = tmp_path_factory.getbasetemp()
    first = made(folder, cls, text).cursor_at("first")
    again = made(folder, cls, first)
    assert again.cursor_at("first") == first
    if issubclass(cls, RegionSource):
        assert read_cursor(first).sequence is not None, "the delete guard would take it for a first contact"
        assert read_cursor(first).read_by("a").sequence is None
    elif cls is NatsJetStreamSource:
        assert msgspec.json.decode(first, type=StreamCursor).start == "first"
    else:
        assert msgspec.json.decode(first, type=RabbitMQCursor).start == "first"


@given(text=st.text(max_size=80))
def test_a_read_position_of_a_region_is_stored_as_it_is_read(text: str) -> None:
    found = read_cursor(text)
    assert read_cursor(found.text()) == found


@pytest.mark.parametrize("epoch", ["9" * 65, "log/" + "9" * 4400, "log/\u00e4"])
def test_a_position_of_an_epoch_that_is_none_begins_with_a_listing_and_has_its_number(epoch: str) -> None:
    assert read_cursor(f"7@{epoch}@2@9@a@8") == RegionCursor(None, "", 2, 9)
