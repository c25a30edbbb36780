# SPDX-License-Identifier: Apache-2.0
"""One region: its lists, single entities, and the stream, with one set of credentials.

It uses the client of this package, as a program outside of the region would. The thread of the follower calls it.
"""

from __future__ import annotations

import itertools
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from keystoneauth1 import adapter, noauth, session
from keystoneauth1.identity import v3

from watcher_sync.client import Client, NotFound, UnexpectedResponse
from watcher_sync.client.transport import SuccessResponse, Transport
from watcher_sync.client.watch_topics import WATCH_TOPICS
from watcher_sync.sources.watch.options import Settings
from watcher_sync.sources.watch.states import Document

_MAX_IDS: Final = 100
"""Ids of one request, as the API allows them."""
_MAX_IDS_CHARS: Final = 2_500
"""Characters of the ids of one request: servers limit the line of a request to about 4,000."""
_MAX_STATES: Final = 1_000
"""Ids in the body of one request, as every API allows them by default."""
_decode_document = msgspec.json.Decoder(Document).decode
_EVERYTHING: Final = {
    "group": "*",
    "kind": "*",
    "name": "*",
    "scope": {"kind": "*", "name": "*"},
    "type": ["created", "updated", "deleted"],
}


class Page(msgspec.Struct, frozen=True):
    """Entities of one kind."""

    entities: list[tuple[Document, bytes]]
    """Each with its JSON."""
    seq: int
    """The head of the region's journal when the page was read."""


class Region:
    """The API of one region."""

    def __init__(self, settings: Settings, group: Any) -> None:
        """:param group: the options of the source, for the credentials."""
        self._settings = settings
        self._adapter = _adapter(settings, group)
        self.client = Client(self._adapter, timeout=settings.timeout)
        self._transport = Transport(self._adapter, timeout=settings.timeout)
        self.topic_link = f"{WATCH_TOPICS}/{urllib.parse.quote(settings.topic, safe='')}"

    def kinds(self) -> dict[str, str]:
        """Kind -> path of its list.

        :raises ClientError: the region does not answer, or refuses.
        """
        return Client(self._adapter, timeout=self._settings.timeout).kinds()  # this one remembers none

    def forget_token(self) -> None:
        """Use a new token from now on: the region refused this one."""
        self._transport.forget_token()

    def ensure_topic(self) -> None:
        """Create the topic if there is none.

        :raises ClientError: the account may not create it, or the region does not answer.
        """
        try:
            self.client.watch_topic(self._settings.topic)
        except NotFound:
            spec = {"description": "Followed by another installation.", "filters": [_EVERYTHING]}
            self.client.create_watch_topic({"name": self._settings.topic, "title": self._settings.topic, "spec": spec})

    def pages(self, path: str) -> Iterator[Page]:
        """All entities of a kind with their versions, page by page.

        :param path: of the list.
        :raises ClientError: the list is not complete.
        """
        return self._pages(path, {"limit": self._settings.page_size})

    def fetch(self, path: str, ids: Sequence[str]) -> Iterator[Page]:
        """Those of these entities that exist, in their present state.

        :raises ClientError: the region does not answer, or refuses.
        """
        portions = list(itertools.islice(_portions([urllib.parse.quote(each, safe="") for each in ids]), 2))
        if len(portions) == 1:
            yield from self._pages(path, {"ids": portions[0], "limit": len(portions[0])})
            return
        for start in range(0, len(ids), _MAX_STATES):
            yield from self._states(path, ids[start : start + _MAX_STATES])

    def _states(self, path: str, ids: Sequence[str]) -> Iterator[Page]:
        """As :meth:`fetch`, for more ids than a URL has room for."""
        marker: str | None = None
        while True:
            body = {"ids": ids} if marker is None else {"ids": ids, "marker": marker}
            root, _, plural = path.rpartition("/")
            page, marker = _decoded(path, self._transport.request("POST", f"{root}/states/{plural}", body=body))
            yield page
            if marker is None:
                return

    def _pages(self, path: str, query: dict[str, Any]) -> Iterator[Page]:
        marker: str | None = None
        while True:
            answer = self._transport.request("GET", path, query={"versions": True, "marker": marker, **query})
            page, marker = _decoded(path, answer)
            yield page
            if marker is None:
                return


def _decoded(path: str, response: SuccessResponse) -> tuple[Page, str | None]:
    """:returns: a page, and the marker of the next one.

    :raises UnexpectedResponse: the answer is no list with versions.
    """
    answer = response.read(dict[str, msgspec.Raw])
    try:
        raws = msgspec.json.decode(answer[path.rpartition("/")[2]], type=list[msgspec.Raw])
        entities = [(_decode_document(raw), bytes(raw)) for raw in raws]
        seq = msgspec.json.decode(answer["seq"], type=int)
        marker = msgspec.json.decode(answer["next_marker"], type=str | None)
    except (KeyError, msgspec.DecodeError) as exc:
        raise UnexpectedResponse(f"the answer of {path} is no list with versions: {exc}") from None
    return Page(entities, seq), marker


def _portions(quoted: Sequence[str]) -> Iterator[list[str]]:
    portion: list[str] = []
    size = 0
    for each in quoted:
        # Each percent sign becomes three characters in the URL.
        length = len(each) + 2 * each.count("%") + 3
        if portion and (len(portion) >= _MAX_IDS or size + length > _MAX_IDS_CHARS):
            yield portion
            portion, size = [], 0
        portion.append(each)
        size += length
    if portion:
        yield portion


def _adapter(settings: Settings, group: Any) -> adapter.Adapter:
    cert = (group.certfile, group.keyfile) if group.keyfile else group.certfile
    made = session.Session(auth=_auth(settings, group), verify=group.cafile or True, cert=cert)
    return adapter.Adapter(made, endpoint_override=settings.endpoint)


def _auth(settings: Settings, group: Any) -> Any:
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
