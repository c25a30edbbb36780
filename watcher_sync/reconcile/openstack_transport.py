# SPDX-License-Identifier: Apache-2.0
"""Limits the size of the answers of OpenStack's APIs, those of Keystone included.

An answer is read in chunks, and its body counts as it is decoded. Reading ends at the first chunk above the limit. So
the memory for an answer is little more than the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from keystoneauth1.session import TCPKeepAliveAdapter

from watcher_sync.reconcile.openstack import AnswerTooLarge

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""A page of 1,000 servers has about 4 MiB."""


def limit_answers(session: Any) -> None:
    """Limit the answers to the requests of a session.

    :param session: of keystoneauth.
    """
    for scheme in ("http://", "https://"):
        session.session.mount(scheme, _LimitedAdapter())


class _LimitedAdapter(TCPKeepAliveAdapter):
    """Sends requests, and limits the body of each answer."""

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Send a request; see :meth:`requests.adapters.BaseAdapter.send`."""
        response = super().send(request, *args, **kwargs)
        response.raw = _LimitedBody(response.raw, urlsplit(request.url).path)
        return response


class _LimitedBody:
    """The body of an answer, as far as ``requests`` reads it. Everything else is that of the original."""

    def __init__(self, raw: Any, path: str) -> None:
        self._raw = raw
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def stream(self, *args: Any, **kwargs: Any) -> Iterator[bytes]:
        """Yield the decoded body.

        :raises AnswerTooLarge: it exceeds the limit; the connection is closed.
        """
        size = 0
        for chunk in self._raw.stream(*args, **kwargs):
            size += len(chunk)
            if size > MAX_ANSWER_BYTES:
                self._raw.close()
                raise AnswerTooLarge(f"{self._path}: the answer has more than {MAX_ANSWER_BYTES} bytes")
            yield chunk
