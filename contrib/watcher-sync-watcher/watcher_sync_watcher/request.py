# SPDX-License-Identifier: Apache-2.0
"""Requests what the models are made of with keystoneauth, as Watcher's own clients do.

A document is cached, and must not be changed. While nothing has changed, the API does not send it again.
"""

from __future__ import annotations

import threading
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

from keystoneauth1 import adapter, exceptions, noauth, session
from oslo_config import cfg

_EPOCH_HEADER = "X-Watcher-Sync-Epoch"
_RETRIABLE = (429, 500, 502, 503, 504)

Document = dict[str, Any]
"""Plural of a kind -> entities, all of one generation."""


class Unavailable(Exception):
    """The API did not answer with what a model is made of."""


class Connection:
    """Sends requests to one API. For any thread, one at a time."""

    def __init__(self, config: Any, watcher_session: Callable[[], session.Session]) -> None:
        """:param config: the values of the options.

        :param watcher_session: makes the session of ``[watcher_clients_auth]``; called once, when it is needed.
        """
        self._config = config
        self._watcher_session = watcher_session
        self._adapter: adapter.Adapter | None = None

    def get(self, path: str, known_tag: str = "") -> tuple[Document | None, Any]:
        """An object and the headers of the answer. None instead of the object: it still has the tag.

        :raises Unavailable: the API did not answer with an object, however often it was asked.
        """
        headers = {"Accept": "application/json"} | ({"If-None-Match": known_tag} if known_tag else {})
        try:
            answer = self._connected().get(path, headers=headers)
            document = None if answer.status_code == 304 else answer.json()
        except (exceptions.ClientException, ValueError) as exc:
            raise Unavailable(f"GET {path}: {exc}") from exc
        if isinstance(document, dict) or (document is None and known_tag):
            return document, answer.headers
        raise Unavailable(f"GET {path}: the answer is no object")

    def _connected(self) -> adapter.Adapter:
        if self._adapter is None:
            retries = cfg.CONF.collector
            self._adapter = adapter.Adapter(
                self._session(),
                service_type=self._config.service_type,
                interface=self._config.interface,
                region_name=self._config.region_name,
                endpoint_override=self._config.endpoint,
                user_agent="watcher-sync-watcher",
                connect_retries=retries.api_query_max_retries,
                connect_retry_delay=retries.api_query_interval,
                status_code_retries=retries.api_query_max_retries,
                status_code_retry_delay=retries.api_query_interval,
                retriable_status_codes=_RETRIABLE,
            )
        return self._adapter

    def _session(self) -> session.Session:
        if self._config.auth_strategy == "keystone":
            return self._watcher_session()
        if not self._config.endpoint:
            raise Unavailable("auth_strategy = noauth needs the option endpoint")
        return session.Session(auth=noauth.NoAuth(endpoint=self._config.endpoint), timeout=self._config.timeout)


class ComputeModelRequest:
    """``GET /v1/compute_model``: one request, and its answer has the generation. For any thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Guards the cached document and its tag.
        self._lock = threading.Lock()
        self._document: Document = {}
        self._tag = ""

    def fetch(self) -> Document:
        """The present document.

        :raises Unavailable: the API did not answer with one.
        """
        with self._lock:
            document, headers = self._connection.get("/v1/compute_model", self._tag)
            if document is not None:
                if not {"generation", "compute_nodes", "instances"} <= document.keys():
                    raise Unavailable("GET /v1/compute_model: the answer is no compute model")
                self._document, self._tag = document, headers.get("ETag", "")
            return self._document


class ListsRequest:
    """The lists of some kinds, as they were after one change. For any thread.

    The first request has no more than the position of the present. The API refuses it to callers who do not see
    everything. If the position is another one, all pages of all lists are requested as of it.
    """

    def __init__(self, connection: Connection, plurals: tuple[str, ...]) -> None:
        self._connection = connection
        self._plurals = plurals
        # Guards the cached document and its position.
        self._lock = threading.Lock()
        self._document: Document = {}
        self._position: tuple[int, str] | None = None

    def fetch(self) -> Document:
        """The present document.

        :raises Unavailable: the API did not answer with all lists of one position.
        """
        with self._lock:
            probed, headers = self._page(f"/v1/{self._plurals[0]}?versions=true&limit=1")
            position = probed["seq"], headers.get(_EPOCH_HEADER, "")
            if position != self._position:
                document = {plural: list(self._entities(plural, *position)) for plural in self._plurals}
                self._document, self._position = document, position
            return self._document

    def _entities(self, plural: str, seq: int, epoch: str) -> Iterator[dict[str, Any]]:
        path = f"/v1/{plural}?as_of={seq}&epoch={epoch}"
        page, _ = self._page(path)
        yield from page[plural]
        while page["next_marker"] is not None:
            page, _ = self._page(f"{path}&marker={urllib.parse.quote(page['next_marker'], safe='')}")
            yield from page[plural]

    def _page(self, path: str) -> tuple[Document, Any]:
        page, headers = self._connection.get(path)
        if page is None or not {"seq", "next_marker"} <= page.keys():
            raise Unavailable(f"GET {path}: the answer is no list")
        return page, headers
