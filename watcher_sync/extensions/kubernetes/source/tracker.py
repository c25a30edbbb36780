# SPDX-License-Identifier: Apache-2.0
"""Turns the objects of lists and watches into events, and remembers which version of each object was seen.

It has the resourceVersion of every object that was seen and is not deleted. Of a custom object it has a digest of what
the model shows. An unchanged object makes no event.

* The version of an object grows with each of its changes, until etcd is restored from a snapshot.
* A complete listing makes an ``absent`` event for each known object that it lacks. Its ``listed`` event has all uids,
  so the handler finds deletions after a restart.
* A listing with an unreadable object makes neither.

Belongs to one reflector's thread; ``count`` is for any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.events import Event, PartialPayload
from watcher_sync.extensions.kubernetes.source import watch_stream
from watcher_sync.extensions.kubernetes.source.lister_watcher import ListerWatcher, ObjectPage
from watcher_sync.extensions.kubernetes.wire.kubernetes import is_below

_UNREADABLE_UID: Final = ""
"""Represents, in a set of uids, an object whose uid cannot be read."""
_EVENTS: Final = ("added", "modified", "deleted", "absent", "listed", "undecodable")


class ObjectTracker:
    """The versions that one reflector has seen, and the events that follow from new ones."""

    def __init__(
        self, lister_watcher: ListerWatcher, *, source: str, cluster: str, sequence: Callable[[], tuple[int, int]]
    ) -> None:
        """:param lister_watcher: knows the resource and the namespace of the objects.

        :param source, cluster: source and origin of the events.
        :param sequence: returns the next place in the order of the source.
        """
        self._api = lister_watcher
        self._source = source
        self._cluster = cluster
        self._sequence = sequence
        self._types = {what: lister_watcher.resource.event_type(what) for what in _EVENTS}
        self._versions: dict[str, str] = {}
        self.went_back = False
        """Whether the version of an object went back, so that etcd was restored from a snapshot."""

    @property
    def count(self) -> int:
        """Number of objects that exist, as far as seen."""
        return len(self._versions)

    def on_page(self, page: ObjectPage, seen: set[str]) -> list[Event]:
        """Return the events for the new and changed objects of a page.

        :param seen: uids of the listing under way; those of the page are added.
        """
        if page.objects is None:
            return [e for text in page.texts() if (e := self.on_text(text, seen, page.unread)) is not None]
        events, text_of, size = [], page.text, page.object_size
        for place, found in enumerate(page.objects):
            metadata = found.metadata
            name, version = metadata.name, metadata.resource_version
            if name and version:
                seen.add(metadata.uid)
                event = self._on_version(PartialPayload(found, text_of, place, size), metadata.uid, version, name)
            else:
                event = self.on_text(text_of(place), seen)
            if event is not None:
                events.append(event)
        return events

    def on_text(self, item: bytes, seen: set[str], unread: str = "") -> Event | None:
        """Return the event for one object of a listing, if it is new or changed, or cannot be decoded.

        :param seen: uids of the listing under way; that of the object is added.
        :param unread: why the item is only its metadata; empty: it is the whole object.
        """
        try:
            metadata = watch_stream.metadata_of(item)
            if not metadata.uid:
                raise msgspec.DecodeError("metadata has no uid")
        except UNDECODABLE as exc:
            seen.add(_UNREADABLE_UID)
            return self.undecodable(item, str(exc))
        seen.add(metadata.uid)
        event = self._on_version(item, metadata.uid, metadata.version, metadata.name, whole=not unread)
        return self._refused(event, unread) if event is not None and unread else event

    def on_change(self, what: str, item: bytes, seen: set[str] | None) -> tuple[str, Event | None]:
        """Process the object of one watch event; return its version, and its event if it is news.

        :param what: added, modified or deleted.
        :param seen: uids of the initial events under way, which this one changes; None after them.
        :raises msgspec.DecodeError, UnicodeError: the metadata cannot be read.
        """
        metadata = watch_stream.metadata_of(item)
        uid, version = metadata.uid, metadata.version
        if not uid or not version:
            raise msgspec.DecodeError("metadata has no uid or no resourceVersion")
        if what != "deleted":
            if seen is not None:
                seen.add(uid)
            return version, self._on_version(item, uid, version, metadata.name)
        if seen is not None:
            seen.discard(uid)
        self._versions.pop(uid, None)
        return version, self._event("deleted", uid, version, item, version, metadata.name)

    def on_complete(
        self, version: str, seen: set[str], *, restored: bool = False
    ) -> tuple[list[Event], list[str]] | None:
        """Return the events at the end of a listing, and the uids that are gone; the caller forgets these later.

        :param version: of the listing.
        :param seen: uids of all that exists.
        :param restored: whether the version is below one that was seen before :meth:`forget_all`.
        :returns: None when an object of the listing is unreadable.
        """
        if _UNREADABLE_UID in seen:
            return None
        gone = [uid for uid in self._versions if uid not in seen]
        events = [self._event("absent", uid, "absent", _only_uid(uid), version) for uid in gone]
        data = {
            "kind": self._api.resource.kind,
            "namespace": self._api.namespace,
            "uids": sorted(seen),
            "resource_version": version,
            "restored": restored,
        }
        return [*events, self._event("listed", "", version, msgspec.json.encode(data), version)], gone

    def forget(self, uids: Iterable[str]) -> None:
        """Remove the versions of deleted objects."""
        for uid in uids:
            del self._versions[uid]

    def forget_all(self) -> None:
        """Forget every version, as after a restart."""
        self._versions.clear()
        self.went_back = False

    def undecodable(self, body: bytes, reason: str) -> Event:
        """Return the event for something that cannot be decoded."""
        return self._refused(self._event("undecodable", "", "", body, ""), reason)

    def _refused(self, event: Event, reason: str) -> Event:
        return msgspec.structs.replace(
            event, type=self._types["undecodable"], undecodable=f"{self._api.name}: {reason}"
        )

    def _on_version(
        self, data: bytes | PartialPayload, uid: str, version: str, name: str, *, whole: bool = True
    ) -> Event | None:
        """Return the event of an existing object; None if this version of it is known, or the model has the same.

        :param whole: whether the data is the object. The digest of its metadata alone may equal that of the object.
        """
        known, mark = self._versions.get(uid), self._mark(version, data) if whole else version
        if known == mark:
            return None
        self._versions[uid] = mark
        self.went_back = self.went_back or is_below(mark, known)
        return self._event("added" if known is None else "modified", uid, version, data, version, name)

    def _mark(self, version: str, data: bytes | PartialPayload) -> str:
        """Return what differs if the model would: the version, or a digest of a custom object.

        Controllers write heartbeats into custom objects. The model shows none of them, so they are no events.
        """
        custom = self._api.resource.custom
        return (custom.digest(data) if custom is not None and isinstance(data, bytes) else "") or version

    def _event(self, what: str, uid: str, about: str, data: Any, position: str, name: str = "") -> Event:
        sequence = self._sequence()
        if uid:
            event_id = f"{uid}/{about}"
        else:
            event_id = f"{self._api.resource.kind}/{self._api.namespace or ''}/{sequence[0]}.{sequence[1]}"
        return Event(
            id=event_id,
            type=self._types[what],
            source=self._source,
            origin=self._cluster,
            subject=name,
            data=data,
            sequence=sequence,
            position=position,
            size=data.size if isinstance(data, PartialPayload) else len(data),
        )


def _only_uid(uid: str) -> bytes:
    """The data of an ``absent`` event."""
    return msgspec.json.encode({"metadata": {"uid": uid}})
