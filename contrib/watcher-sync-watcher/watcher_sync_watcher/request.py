# SPDX-License-Identifier: Apache-2.0
"""Requests the compute model with keystoneauth, as Watcher's own clients do.

The last document is cached with its ETag. While nothing has changed, the API answers 304 without a document.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from keystoneauth1 import adapter, exceptions, noauth, session
from oslo_config import cfg

PATH = "/v1/compute_model"

_RETRIABLE = (429, 500, 502, 503, 504)

Document = dict[str, Any]


class Unavailable(Exception):
    """The API did not answer with a compute model."""


class ComputeModelRequest:
    """``GET /v1/compute_model`` of one API. For any thread."""

    def __init__(self, config: Any, watcher_session: Callable[[], session.Session]) -> None:
        """:param config: the values of the collector's options.

        :param watcher_session: makes the session of ``[watcher_clients_auth]``; called once, when it is needed.
        """
        self._config = config
        self._watcher_session = watcher_session
        self._adapter: adapter.Adapter | None = None
        # Guards the cached document and its tag.
        self._lock = threading.Lock()
        self._document: Document | None = None
        self._tag = ""

    def fetch(self) -> Document:
        """The present document, which must not be changed. One request.

        :raises Unavailable: the API did not answer with one, however often it was asked.
        """
        with self._lock:
            headers = {"Accept": "application/json"}
            if self._document is not None:
                headers["If-None-Match"] = self._tag
            try:
                answer = self._connected().get(PATH, headers=headers)
                if answer.status_code == 304 and self._document is not None:
                    return self._document
                document = answer.json()
            except (exceptions.ClientException, ValueError) as exc:
                raise Unavailable(f"GET {PATH}: {exc}") from exc
            if not isinstance(document, dict) or not {"generation", "compute_nodes", "instances"} <= document.keys():
                raise Unavailable(f"GET {PATH}: the answer is no compute model")
            self._document, self._tag = document, answer.headers.get("ETag", "")
            return document

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
