# SPDX-License-Identifier: Apache-2.0
"""One region: its lists, what changed, and the stream, with one set of credentials.

It uses the client of this package, as a program outside of the region would. The thread of the follower calls it.
"""

from __future__ import annotations

import datetime
import urllib.parse
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from keystoneauth1 import adapter, noauth, session
from keystoneauth1.identity import v3

from watcher_sync.client import Client, Conflict, Forbidden, NotFound, UnexpectedResponse
from watcher_sync.client.errors import OversizedAnswer
from watcher_sync.client.transport import SuccessResponse, Transport
from watcher_sync.decoding import UNDECODABLE
from watcher_sync.extensions.federation.source.options import RegionSettings
from watcher_sync.extensions.federation.source.states import RegionDocument, decode_document
from watcher_sync.extensions.watch.wire.topic_links import self_link
from watcher_sync.wire.limits import is_epoch

_MAX_CHANGED: Final = 2_000
"""Entities of one answer about changes: two thirds of what the engine takes of a source at once."""
_SHOWN: Final = 64
_EVERYTHING: Final = {
    "group": "*",
    "kind": "*",
    "name": "*",
    "scope": {"kind": "*", "name": "*"},
    "type": ["created", "updated", "deleted"],
}


class RegionPage(msgspec.Struct, frozen=True):
    """Entities of one kind."""

    entities: list[tuple[RegionDocument, bytes]]
    """Each with its JSON."""
    seq: int
    """The head of the region's journal when the page was read."""
    epoch: str = ""
    """The epoch of the region's database; empty: the region is older than epochs."""


class RegionDeletion(msgspec.Struct, frozen=True):
    """An entity that exists no more."""

    kind: str
    id: str
    seq: int
    versions: dict[str, str]
    time: datetime.datetime | None = None


class RegionChanges(msgspec.Struct, frozen=True):
    """What changed after a sequence, each entity once."""

    states: dict[str, list[msgspec.Raw]]
    """Kind -> the JSON of entities, which may be newer than ``next_since``."""
    deleted: list[RegionDeletion]
    next_since: int
    """The sequence up to which all changes are here."""
    head: int
    """The last sequence of the region's journal when it was read."""
    epoch: str = ""
    """The epoch of the region's database; empty: the region is older than epochs."""


class Region:
    """The API of one region."""

    def __init__(self, settings: RegionSettings, group: Any) -> None:
        """:param group: the options of the source, for the credentials."""
        self._settings = settings
        self._adapter = _adapter(settings, group)
        self.client = Client(self._adapter, timeout=settings.timeout)
        self._transport = Transport(self._adapter, timeout=settings.timeout)
        self.topic_link = self_link(urllib.parse.quote(settings.topic, safe=""))

    def kinds(self) -> dict[str, str]:
        """Kind -> path of its list.

        :raises ClientError: the region does not answer, or refuses.
        """
        return Client(self._adapter, timeout=self._settings.timeout).kinds()  # this one remembers none

    def forget_token(self) -> None:
        """Use a new token from now on: the region refused this one."""
        self._transport.forget_token()

    def ensure_topic(self) -> bool:
        """Create the topic if there is none, or if other projects have several of the name.

        :returns: whether there is one; the account of a reader may not create it.
        :raises ClientError: the region does not answer, or refuses.
        """
        try:
            self.client.watch_topic(self._settings.topic)
        except (NotFound, Conflict):
            spec = {"description": "Followed by another installation.", "filters": [_EVERYTHING]}
            topic = {"name": self._settings.topic, "title": self._settings.topic, "spec": spec}
            try:
                self.client.create_watch_topic(topic)
            except Forbidden:
                return False
        return True

    def pages(self, path: str) -> Iterator[RegionPage]:
        """All entities of a kind with their versions, page by page.

        :param path: of the list.
        :raises ClientError: the list is not complete.
        """
        return self._pages(path, self._settings.page_size)

    def changes(self, since: int, epoch: str = "") -> RegionChanges:
        """The present states of what changed after a sequence.

        :param epoch: of the sequence; empty: not known.
        :raises Gone: the region's journal does not have this position, or is of another epoch.
        :raises ClientError: the region does not answer, or refuses.
        """
        answer = self._request("/v1/states", _MAX_CHANGED, {"since": since, "epoch": epoch or None})
        return msgspec.structs.replace(answer.read(RegionChanges), epoch=_epoch_of(answer))

    def _request(self, path: str, limit: int, query: dict[str, Any]) -> SuccessResponse:
        """A list of at most so many entities, and of fewer where they are too large for one answer."""
        while True:
            try:
                return self._transport.request("GET", path, query={**query, "limit": limit})
            except OversizedAnswer:
                if limit == 1:
                    raise
                limit //= 2

    def _pages(self, path: str, limit: int) -> Iterator[RegionPage]:
        marker: str | None = None
        while True:
            answer = self._request(path, limit, {"versions": True, "marker": marker})
            page, marker = _decoded(path, answer)
            yield page
            if marker is None:
                return


def _decoded(path: str, response: SuccessResponse) -> tuple[RegionPage, str | None]:
    """:returns: a page, and the marker of the next one.

    :raises UnexpectedResponse: the answer is no list with versions.
    """
    answer = response.read(dict[str, msgspec.Raw])
    try:
        raws = msgspec.json.decode(answer[path.rpartition("/")[2]], type=list[msgspec.Raw])
        entities = [(decode_document(raw), bytes(raw)) for raw in raws]
        seq = msgspec.json.decode(answer["seq"], type=int)
        marker = msgspec.json.decode(answer["next_marker"], type=str | None)
    except (KeyError, *UNDECODABLE) as exc:
        raise UnexpectedResponse(f"the answer of {path} is no list with versions: {exc}") from None
    return RegionPage(entities, seq, _epoch_of(response)), marker


def _epoch_of(response: SuccessResponse) -> str:
    """:raises UnexpectedResponse: it is none, and a position has no room for it."""
    if response.epoch and not is_epoch(response.epoch):
        raise UnexpectedResponse(f"the epoch in the answer is none: {response.epoch[:_SHOWN]!a}")
    return response.epoch


def _adapter(settings: RegionSettings, group: Any) -> adapter.Adapter:
    cert = (group.certfile, group.keyfile) if group.keyfile else group.certfile
    made = session.Session(auth=_auth(settings, group), verify=group.cafile or True, cert=cert, redirect=False)
    return adapter.Adapter(made, endpoint_override=settings.endpoint)


def _auth(settings: RegionSettings, group: Any) -> Any:
    if not group.auth_url:
        return noauth.NoAuth(endpoint=settings.endpoint)
    if group.application_credential_id:
        return v3.ApplicationCredential(
            group.auth_url,
            application_credential_id=group.application_credential_id,
            application_credential_secret=group.application_credential_secret,
        )
    scope: dict[str, Any] = {"system_scope": "all"}
    if group.project_name:
        scope = {"project_name": group.project_name, "project_domain_name": group.project_domain_name}
    return v3.Password(
        group.auth_url,
        username=group.username,
        password=group.password,
        user_domain_name=group.user_domain_name,
        **scope,
    )
