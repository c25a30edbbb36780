# SPDX-License-Identifier: Apache-2.0
"""What others send is refused as its reader documents, whatever a decoder of msgspec raises for it."""

from __future__ import annotations

import ast
import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from watcher_sync_cinder.handler import CinderHandler

import watcher_sync
from tests.waiting import deadline
from watcher_sync.api.identity.login import KeystoneAddress
from watcher_sync.client.errors import UnexpectedResponse
from watcher_sync.client.watch import FileSequence, messages_of_page
from watcher_sync.client.watch.refresher import expiry
from watcher_sync.client.watch.sequences import LOST
from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.federation.source.region import _decoded
from watcher_sync.extensions.kubernetes.capacity import KubernetesProvider
from watcher_sync.extensions.log.nats_jetstream.publisher import _why_refused
from watcher_sync.reconcile.capacity_provider import CapacityError
from watcher_sync.transports.exceptions import NotReady
from watcher_sync.transports.nats.api import JetStreamAnswer, JetStreamApi
from watcher_sync.transports.nats.messages import NatsMessage

ROOT = Path(watcher_sync.__file__).parent
CONTRIB = ROOT.parent / "contrib"

HOSTILE = {
    "no UTF-8": b'"\xff"',
    "half a surrogate pair": b'"\\ud800"',
    "too many digits": b"9" * 5_000,
    "NaN": b"NaN",
    "another type": b"[{}]",
    "nothing": b"",
    "deep": b"[" * 100_000 + b"]" * 100_000,
}
"""Each is in the place of a text. The deep one gets a member of its own, for readers that check the type first."""


def _object(name: str, value: bytes, rest: bytes = b"") -> bytes:
    if value is HOSTILE["deep"]:
        return b'{%b"new": %b, "%b": ""}' % (rest, value, name.encode())
    return b'{%b"%b": %b}' % (rest, name.encode(), value)


def _page_of_the_catch_up(value: bytes) -> None:
    with pytest.raises(ValueError):
        messages_of_page(b"[%b]" % _object("id", value, b'"metadata": {"sequenceID": 1}, "type": "x", '))


def _answer_of_jetstream(value: bytes) -> None:
    async def request(*_: object, **__: object) -> NatsMessage:
        return NatsMessage("", "", b'{"error": %b}' % _object("description", value))

    api = JetStreamApi(SimpleNamespace(request=request), prefix="$JS.API", timeout=deadline(1))  # type: ignore[arg-type]
    with pytest.raises(NotReady, match="not understood"):
        asyncio.run(api.ask("STREAM.INFO.s", None, JetStreamAnswer))


def _answer_to_a_message(value: bytes) -> None:
    answer = NatsMessage("", "", b'{"error": %b}' % _object("description", value))
    assert _why_refused(answer, 1) == ("its answer is not understood", False)


def _projects_of_keystone(value: bytes) -> None:
    content = b'{"projects": [%b]}' % _object("name", value, b'"id": "p", ')
    client: Any = SimpleNamespace(get=lambda *_, **__: SimpleNamespace(content=content))
    assert KeystoneAddress("http://keystone")._projects(client, "token") == {}


def _page_of_a_region(value: bytes) -> None:
    members = {"instances": b"[%b]" % _object("id", value, b'"seq": 1, '), "seq": b"1", "next_marker": b"null"}
    answer: Any = SimpleNamespace(read=lambda _: members, epoch="")
    with pytest.raises(UnexpectedResponse):
        _decoded("/v1/instances", answer)


def _node_of_a_cluster(value: bytes) -> None:
    provider: Any = KubernetesProvider.__new__(KubernetesProvider)
    provider._clusters = [(SimpleNamespace(cluster="edge"), None)]
    node = b'{"metadata": %b}' % _object("name", value)
    with mock.patch.object(provider, "_list", return_value=[node]), pytest.raises(CapacityError, match="node"):
        provider.capacities(0.0)


def _claims_of_a_token(value: bytes) -> None:
    claims = base64.urlsafe_b64encode(_object("exp", value)).decode()
    assert expiry(f"head.{claims}.signature") is None


def _type_of_a_volume(value: bytes) -> None:
    data = b'{"volume_types": %b}' % _object("id", value, b'"name": "n", "is_public": true, ')
    event = Event(id="e", type="volume_type.create", source="cinder", data=data)
    with pytest.raises(InvalidEvent):
        list(CinderHandler().on_type(event, None))  # type: ignore[arg-type]


READERS = [
    _page_of_the_catch_up,
    _answer_of_jetstream,
    _answer_to_a_message,
    _projects_of_keystone,
    _page_of_a_region,
    _node_of_a_cluster,
    _claims_of_a_token,
    _type_of_a_volume,
]


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__[1:])
def test_each_reader_refuses_a_hostile_text_as_it_documents(read: Callable[[bytes], None], value: bytes) -> None:
    read(value)


@pytest.mark.parametrize("content", [b'{"\xff": 1}', b"NaN"], ids=["no UTF-8", "NaN"])
def test_a_damaged_file_of_watermarks_says_that_they_are_lost(content: bytes, tmp_path: Path) -> None:
    (path := tmp_path / "sequences").write_bytes(content)
    assert FileSequence(path).get("topic") == LOST


def test_each_try_that_catches_an_error_of_a_decoder_catches_all_that_it_raises() -> None:
    """A ``try`` names ``UNDECODABLE``, or has an answer to each of its errors."""
    folders = [ROOT, *CONTRIB.glob("*/watcher_sync_*")]
    paths = [path for folder in folders for path in folder.rglob("*.py") if "testing" not in path.parts]
    assert len(paths) > 500
    assert [
        f"{path.relative_to(ROOT.parent)}:{node.lineno}"
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Try) and not _is_complete(node)
    ] == []


def _is_complete(node: ast.Try) -> bool:
    caught = " ".join(ast.unparse(handler.type) for handler in node.handlers if handler.type is not None)
    if "msgspec.DecodeError" not in caught and "msgspec.MsgspecError" not in caught:
        return True
    return "RecursionError" in caught and ("UnicodeError" in caught or "ValueError" in caught)
