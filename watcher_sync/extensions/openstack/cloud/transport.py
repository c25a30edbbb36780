# SPDX-License-Identifier: Apache-2.0
"""Limits the answers of OpenStack's APIs, those of Keystone included: their size, and where they redirect to.

A redirect to another host is refused: that host would receive the token or the password. Nova redirects to other paths.

An answer is read in chunks, and its body counts as it is decoded. Reading ends at the first chunk above the limit. So
the memory for an answer is little more than the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import SplitResult, urljoin, urlsplit

import requests
from keystoneauth1.session import TCPKeepAliveAdapter

from watcher_sync.extensions.openstack.cloud.errors import AnswerTooLarge

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""A page of 1,000 servers has about 4 MiB."""
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def limit_answers(session: Any) -> None:
    """Limit the answers to the requests of a session.

    :param session: of keystoneauth.
    """
    for scheme in ("http://", "https://"):
        session.session.mount(scheme, _LimitedAdapter())


class _LimitedAdapter(TCPKeepAliveAdapter):
    """Sends requests, and limits the body of each answer."""

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Send a request; see :meth:`requests.adapters.BaseAdapter.send`.

        :raises requests.ConnectionError: the answer is a redirect to another host.
        """
        response = super().send(request, *args, **kwargs)
        if response.is_redirect:
            require_same_host(request.url, response.headers["Location"])
        response.raw = _LimitedBody(response.raw, urlsplit(request.url).path)
        return response


def require_same_host(url: str, location: str) -> None:
    """Refuse a redirect to another host.

    :param location: as the answer has it, relative or absolute.
    :raises requests.ConnectionError: they differ in scheme, host or port. keystoneauth knows what to do with it.
    """
    here = urlsplit(url)
    try:
        there = urlsplit(urljoin(url, location))
        is_same, where = _origin_of(there) == _origin_of(here), f"{there.scheme}://{there.netloc}"
    except ValueError:
        is_same, where = False, "what is no URL"
    if not is_same:
        raise requests.ConnectionError(
            f"{here.path}: {here.scheme}://{here.netloc} redirects to {where}, which would "
            "receive the credentials: a redirect to another host is not followed"
        )


def _origin_of(url: SplitResult) -> tuple[str, str | None, int | None]:
    """Scheme, host in lower case, and port. :raises ValueError: the port is no number of a port."""
    return url.scheme, url.hostname, _DEFAULT_PORTS.get(url.scheme) if url.port is None else url.port


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
