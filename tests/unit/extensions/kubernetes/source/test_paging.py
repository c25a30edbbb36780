# SPDX-License-Identifier: Apache-2.0
"""A page that is decoded at once yields the same events as a page whose objects are decoded one by one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event, PartialPayload
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.kubernetes.handler import payloads
from watcher_sync.extensions.kubernetes.handler.handler import KubernetesHandler
from watcher_sync.extensions.kubernetes.source import lister_watcher
from watcher_sync.extensions.kubernetes.source.connection import ApiError, TooLarge, TransportError
from watcher_sync.extensions.kubernetes.source.options import ReflectorSettings
from watcher_sync.extensions.kubernetes.source.reflector import Reflector
from watcher_sync.extensions.kubernetes.source.resources import KNOWN, Resource
from watcher_sync.extensions.kubernetes.wire.kubernetes import Object
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.storage.stored.stored_events import columns_of
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.testing.kubernetes import builders
from watcher_sync.testing.kubernetes.reads import ListQuery, Lists
from watcher_sync.testing.kubernetes.resources import PODS
from watcher_sync.testing.kubernetes.store import Store
from watcher_sync.testing.kubernetes.views import view


class Cluster:
    """Answers with these pages, and takes what is emitted."""

    def __init__(self, bodies: Iterable[bytes], resource: Resource = KNOWN["pods"]) -> None:
        self.events: list[Event] = []
        self.model = Model(builtin_kinds())
        self._bodies = iter(bodies)
        self._numbers = itertools.count(1)
        settings = ReflectorSettings(source="edge", cluster="edge")
        self.reflector = Reflector(resource, None, self, settings, self)  # type: ignore[arg-type]
        self.reflector.list_pages()

    def again(self, bodies: Iterable[bytes]) -> list[Event]:
        """List again, and return the new events."""
        self._bodies, before = iter(bodies), len(self.events)
        self.reflector.list_pages()
        return self.events[before:]

    def read(
        self, path: str, query: Mapping[str, str], *, accept: str, read_timeout: float | None = None, max_bytes: int = 0
    ) -> bytes:
        return next(self._bodies)

    def sequence(self) -> tuple[int, int]:
        return 1, next(self._numbers)

    def changed(self) -> None:
        pass

    def emit(self, events: Sequence[Event]) -> None:
        self.events += events

    def outcomes(self) -> list[str]:
        """What the handler makes of each event: an outcome, or why it is refused."""
        find = Dispatcher([("kubernetes", KubernetesHandler())]).find
        transaction, found = Transaction(self.model), []
        for event in self.events:
            entry = find(event.type)
            try:
                if event.undecodable is not None:
                    raise InvalidEvent(event.undecodable)
                assert entry is not None
                assert entry.call is not None
                found.append(transaction.apply(event, entry.call(event, transaction) or ()).value)
            except InvalidEvent as exc:
                found.append(str(exc))
        self.model.publish(transaction)
        return found


def pod(number: int, **metadata: Any) -> dict[str, Any]:
    obj = builders.pod(f"pod-{number}", labels={"app": "x"}, node="node-1", phase="Running")
    obj["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": str(100 + number), **metadata}
    return obj


def page(*items: Any, token: str = "") -> bytes:
    """Builds a page; an item of type bytes is inserted unchanged."""
    texts = [item if isinstance(item, bytes) else json.dumps(item).encode() for item in items]
    head = json.dumps({"resourceVersion": "4711", "continue": token}).encode()
    return b'{"kind":"PodList","metadata":%b,"items":[%b]}' % (head, b",".join(texts))


def as_kept(event: Event) -> dict[str, Any]:
    return columns_of(event) | {"position": event.position}


def untyped(resource: Resource) -> Resource:
    return msgspec.structs.replace(resource, read_as=None)


@pytest.mark.parametrize("plural", KNOWN)
def test_a_handler_gets_what_the_page_was_decoded_to_and_decodes_nothing(
    monkeypatch: pytest.MonkeyPatch, plural: str
) -> None:
    cluster = Cluster([page(pod(1), pod(2), token="more"), page(pod(3))], KNOWN[plural])
    *seen, listed = cluster.events
    assert [isinstance(event.data, PartialPayload) for event in seen] == [True] * 3
    cluster.events = seen
    monkeypatch.setattr(payloads, "_DECODERS", {})
    monkeypatch.setattr(lister_watcher, "_decode", None)
    assert cluster.outcomes() == ["applied"] * 3
    assert listed.type.endswith(".listed")


BAD = {
    "null": b"null",
    "a text": b'"pod"',
    "a list": b"[]",
    "empty": b"{}",
    "no metadata": pod(0) | {"metadata": None},
    "no uid": pod(0, uid=""),
    "a uid that is none": pod(0, uid=7),
    "a uid that is too long": pod(0, uid="u" * 300),
    "no name": pod(0, name=""),
    "null for a name": pod(0, name=None),
    "a name that is too long": pod(0, name="n" * 300),
    "null for a version": pod(0, resourceVersion=None),
    "an empty version": pod(0, resourceVersion=""),
    "a number for a version": pod(0, resourceVersion=5),
    "labels that are none": pod(0, labels=["app"]),
    "a label that is no text": pod(0, labels={"app": 1}),
    "a time that is none": pod(0, creationTimestamp="yesterday"),
    "a status that is none": pod(0) | {"status": "Running"},
    "a phase that is none": pod(0) | {"status": {"phase": 1}},
    "restarts below zero": pod(0) | {"status": {"containerStatuses": [{"restartCount": -1}]}},
    "too many restarts in all": pod(0) | {"status": {"containerStatuses": [{"restartCount": 2**62}] * 2}},
    "no text": json.dumps(pod(0)).encode().replace(b'"Running"', b'"\xff\xfe"'),
    "no text in the uid": json.dumps(pod(0)).encode().replace(b'"uid-0"', b'"\xff\xfe"'),
    "nested too deep": b'{"metadata":' + b"[" * 300 + b"]" * 300 + b"}",
}


@pytest.mark.parametrize("item", BAD.values(), ids=BAD)
def test_a_malformed_object_gives_the_same_event_as_untyped_decoding_and_spoils_only_itself(item: Any) -> None:
    bodies = [page(pod(1), item, pod(2), token="more"), page(pod(3))]
    one_go, each = Cluster(bodies), Cluster(bodies, untyped(KNOWN["pods"]))
    assert [as_kept(event) for event in one_go.events] == [as_kept(event) for event in each.events]
    assert one_go.outcomes() == each.outcomes()
    assert one_go.outcomes().count("duplicate") >= 3
    ids = one_go.model.snapshot().ids("pod")
    assert {"uid-1", "uid-2", "uid-3"} <= set(ids)
    assert ids == each.model.snapshot().ids("pod")
    for entity_id in ids:
        assert one_go.model.get("pod", entity_id) == each.model.get("pod", entity_id)


def test_what_the_handler_refuses_is_stored_with_its_whole_text() -> None:
    refused = pod(2) | {"status": {"containerStatuses": [{"restartCount": 2**62}] * 2}, "unknown": "to all"}
    cluster = Cluster([page(pod(1), refused, pod(3))])
    assert isinstance(cluster.events[1].data, PartialPayload)
    assert "restarts" in cluster.outcomes()[1]
    kept = columns_of(cluster.events[1])
    assert (json.loads(kept["body"]), kept["decoded"]) == (refused, True)


def test_an_event_can_be_read_as_anything_that_its_text_says() -> None:
    class Mine(msgspec.Struct):
        kind: str

    (event, _) = Cluster([page(pod(1))]).events
    assert event.read(Mine) == Mine("Pod")
    assert event.read() == pod(1)
    assert event.read(Object).metadata.uid == "uid-1"
    assert event.read(type(event.data.decoded)) is event.data.decoded
    with pytest.raises(InvalidEvent, match="Expected `int`"):
        event.read(int)


def test_a_page_is_cut_into_texts_once_however_many_of_them_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    events = Cluster([page(*map(pod, range(50)))]).events[:-1]
    times, decode = [], lister_watcher._decode
    monkeypatch.setattr(lister_watcher, "_decode", lambda body: times.append(1) or decode(body))
    assert [json.loads(event.data.text) for event in events] == [pod(number) for number in range(50)]
    assert times == [1]


def test_of_a_list_that_is_known_for_the_most_part_no_page_is_held_for_a_few_news() -> None:
    cluster = Cluster([page(*map(pod, range(50)))])
    news = cluster.again([page(*map(pod, range(51)))])
    assert [(event.type, type(event.data)) for event in news[:-1]] == [("kubernetes.pod.added", bytes)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"metadata":{}}',
        b'{"kind":"Pod","metadata":{"resourceVersion":"1","uid":"a"}}',
        b'{"metadata":{"resourceVersion":"1"},"items":7}',
        b'{"metadata":{"resourceVersion":"\xfc"}}',
    ],
)
def test_what_is_no_list_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(TransportError, match="the answer is no list"):
        Cluster([body])


@pytest.mark.parametrize("items", [b"null", b"[]"])
def test_an_empty_list_is_a_list(items: bytes) -> None:
    cluster = Cluster([b'{"metadata":{"resourceVersion":"1"},"items":%b}' % items])
    assert [event.type for event in cluster.events] == ["kubernetes.pod.listed"]


class Lister:
    """Answers a list of pods of these sizes as an API server does, up to a maximum size."""

    def __init__(self, sizes: Sequence[int], *, expires: bool = False) -> None:
        """:param expires: whether no list has a second page."""
        store = Store(history_limit=1_000)
        for number, size in enumerate(sizes):
            store.put(PODS, pod(number) | {"spec": {"large": "x" * size}})
        self._lists = Lists(store)
        self._expires = expires
        self.limits: list[int] = []
        self.refused = 0

    def read(
        self, path: str, query: Mapping[str, str], *, accept: str, read_timeout: float | None = None, max_bytes: int
    ) -> bytes:
        limit, token = int(query.get("limit", 0)), query.get("continue", "")
        self.limits.append(limit)
        if token and self._expires:
            raise ApiError(410, "Expired", "")
        found = self._lists.page(PODS, ListQuery(limit=limit, token=token))
        body = view(accept).many(PODS, found.items, found.metadata)
        if len(body) > max_bytes:
            self.refused += 1
            raise TooLarge
        return body


MOST = 5_000
ONE = 2_000
"""An object with so many bytes of content fits alone on a page."""


def listed(lister: Lister, page_size: int) -> tuple[list[str], list[str]]:
    """The uids of a listing, and of those the ones of objects that are too large."""
    api = lister_watcher.ListerWatcher(lister, KNOWN["pods"], None, page_size=page_size)  # type: ignore[arg-type]
    uids: list[str] = []
    unread: list[str] = []
    with mock.patch.object(lister_watcher, "MAX_ANSWER_BYTES", MOST):
        for _, each in api.pages():
            found = [json.loads(text)["metadata"] for text in each.texts()]
            uids += [metadata["uid"] for metadata in found]
            if each.unread:
                (metadata,) = found
                assert each.unread == f"default/{metadata['name']} has more than {MOST} bytes"
                unread.append(metadata["uid"])
    return uids, unread


@settings(deadline=None)
@given(
    sizes=st.lists(st.sampled_from([0, 10, 500, ONE, 2 * MOST]) | st.integers(0, ONE), max_size=40),
    page_size=st.integers(1, 50),
)
@example(sizes=[2 * MOST], page_size=500)
@example(sizes=[ONE] * 40, page_size=500)
def test_a_listing_has_each_object_once_and_names_those_that_are_too_large(sizes: list[int], page_size: int) -> None:
    uids, unread = listed(Lister(sizes), page_size)
    assert sorted(uids) == sorted(f"uid-{number}" for number in range(len(sizes)))
    assert sorted(unread) == sorted(f"uid-{number}" for number, size in enumerate(sizes) if size > ONE)


def test_pages_grow_again_after_an_object_that_is_too_large() -> None:
    lister = Lister([2 * MOST, *[0] * 100])
    assert len(listed(lister, 4)[0]) == 101
    assert lister.refused == 3


def test_a_list_that_expires_and_does_not_fit_on_one_page_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lister_watcher, "_MAX_LIST_BYTES", 20_000)
    lister = Lister([ONE] * 40, expires=True)
    with pytest.raises(TooLarge):
        listed(lister, 1)
    assert lister.limits == [1, 1, 1, 1, 0]


def test_a_list_whose_pages_repeat_is_given_up() -> None:
    again = b'{"metadata":{"resourceVersion":"1","continue":"next"},"items":[]}'
    with pytest.raises(TransportError, match="the list does not end"):
        Cluster([again, again, b'{"metadata":{"resourceVersion":"1"},"items":[]}'])
