# SPDX-License-Identifier: Apache-2.0
"""One request and its answer, or one of the client's errors; nothing else gets out.

The session is keystoneauth's: it adds the token, renews it when it is refused, and knows the certificates. Nothing is
repeated here. Who may repeat is up to the caller: a read may be asked again, of a write nobody knows whether
it was done.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import requests
from keystoneauth1 import adapter, session
from keystoneauth1 import exceptions as keystone

from watcher_sync.client.errors import (
    ClientError,
    FieldError,
    InvalidId,
    NotConfigured,
    UnexpectedResponse,
    Unreachable,
    problem_error,
)

SERVICE_TYPE = "watcher-sync"
"""Of the service catalog."""

CONNECT_TIMEOUT = 10.0
"""Seconds until a connection has to stand."""

T = TypeVar("T")


class Answer:
    """A successful answer."""

    def __init__(self, response: requests.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.etag: str = response.headers.get("ETag", "")

    def read(self, into: type[T]) -> T:
        """The body.

        :raises UnexpectedResponse: when it is not what was to be expected.
        """
        try:
            return msgspec.json.decode(self._response.content, type=into)
        except (msgspec.DecodeError, ValueError) as exc:
            raise UnexpectedResponse(f"{self._response.url} does not answer as this API does: {exc}") from None


class Transport:
    """Requests to one API. Used by one thread at a time."""

    def __init__(self, adapter: adapter.Adapter, *, timeout: float = 30.0) -> None:
        """:param adapter: knows the session and the endpoint, which is the root of the service (with or without
            ``/v1``).

        :param timeout: seconds that an answer may take, beyond the time that it was asked to wait.
        """
        self._adapter = adapter
        self._timeout = timeout
        self._root = ""

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        wait: float = 0.0,
    ) -> Answer:
        """Ask.

        :param query: parameters; those that are None are left out, sequences are joined by commas.
        :param body: anything that JSON can say.
        :param wait: seconds that the server was asked to wait.
        :raises ClientError: whatever goes wrong.
        """
        sent = {"Accept": "application/json", **(headers or {})}
        more: dict[str, Any] = {}
        if body is not None:
            sent["Content-Type"] = "application/json"
            more["data"] = msgspec.json.encode(body)
        try:
            response = self._adapter.session.request(
                path,
                method,
                auth=self._adapter.auth,
                endpoint_override=self._endpoint(),
                raise_exc=False,
                headers=sent,
                params={name: _text(value) for name, value in (query or {}).items() if value is not None},
                timeout=(min(CONNECT_TIMEOUT, self._timeout), self._timeout + wait),
                user_agent="watcher-sync-client",
                **more,
            )
        except (keystone.ClientException, requests.RequestException) as exc:
            raise _failure(exc) from exc
        if response.status_code >= 400:
            raise _refusal(response)
        return Answer(response)

    def apart(self) -> Transport:
        """One for another thread: the same credentials and endpoint over connections of its own."""
        old = self._adapter.session
        own = session.Session(auth=old.auth, verify=old.verify, cert=old.cert, timeout=old.timeout)
        made = Transport(adapter.Adapter(own, auth=self._adapter.auth), timeout=self._timeout)
        made._root = self._endpoint()
        return made

    def _endpoint(self) -> str:
        """The root of the service, looked up once."""
        if not self._root:
            found = self._adapter.get_endpoint()
            if not found:
                raise NotConfigured(
                    f"no endpoint: the service catalog has no service of the type {SERVICE_TYPE}; "
                    "name the endpoint yourself"
                )
            self._root = found.rstrip("/").removesuffix("/v1")
        return self._root


def segment(text: str) -> str:
    """A text as one segment of a path.

    :raises InvalidId: when it would be another path: HTTP libraries take dots for folders, even encoded ones.
    """
    if text in ("", ".", "..") or "/" in text:
        raise InvalidId(f"what has the id {text!r} cannot be asked for by path")
    return urllib.parse.quote(text, safe="")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def _failure(exc: Exception) -> ClientError:
    """The sentence for what keystoneauth or requests raised."""
    text = " ".join(str(exc).split()) or type(exc).__name__
    if isinstance(exc, keystone.SSLError):
        return NotConfigured(text)
    if isinstance(exc, (keystone.ConnectionError, requests.RequestException)):
        in_time = not isinstance(exc, (keystone.ConnectTimeout, requests.Timeout))
        cause = _cause(exc) if in_time else "no answer in time"
        server = re.search(r"https?://[^/\s]+", text)
        return Unreachable(f"{server[0]}: {cause}" if server and cause else text)
    if isinstance(exc, keystone.HttpError):
        status = int(exc.http_status or 500)
        return problem_error(status, f"Keystone: {text}", errors=(), retry_after=None, document={})
    return NotConfigured(text)


def _cause(exc: BaseException) -> str:
    """What the system said, below the wrappings of three libraries."""
    found = ""
    inner: BaseException | None = exc
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            found = inner.strerror
        inner = inner.__cause__ or inner.__context__
    return found


def _refusal(response: requests.Response) -> ClientError:
    """The error of an answer; one that is no problem document is told by its status alone."""
    try:
        document = msgspec.json.decode(response.content)
        errors = msgspec.convert(document.get("errors", []), list[FieldError])
        detail = str(document.get("detail") or document.get("title") or response.reason)
    except (msgspec.MsgspecError, AttributeError, ValueError):
        document, errors = {}, []
        detail = f"{response.status_code} {response.reason} from {response.url}"
    return problem_error(
        response.status_code,
        detail,
        errors=errors,
        retry_after=_seconds(response.headers.get("Retry-After")),
        document=document,
    )


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None
