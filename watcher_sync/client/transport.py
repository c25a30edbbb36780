# SPDX-License-Identifier: Apache-2.0
"""One HTTP request and its answer, or one of the client's errors.

The session is keystoneauth's: it adds the token, renews a token that the API refuses, and checks the certificates.

This module never retries. The caller decides: it can repeat a read, but after a lost answer it does not know whether
the API has executed a write. Only a request whose microversion the API refused is sent again, with the newest version
that both know.
"""

from __future__ import annotations

import datetime
import io
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import requests
from keystoneauth1 import adapter, session
from keystoneauth1 import exceptions as keystone
from keystoneauth1.identity import BaseIdentityPlugin
from microversion_parse import parse_version_string

from watcher_sync.accounts import cause_of, share_between_threads
from watcher_sync.client.errors import (
    ClientError,
    FieldError,
    InvalidId,
    NotConfigured,
    OversizedAnswer,
    ProblemError,
    UnexpectedResponse,
    Unreachable,
    problem_error,
)
from watcher_sync.decoding import UNDECODABLE

SERVICE_TYPE = "watcher-sync"
"""The type of the service in Keystone's catalog."""

OLDEST_VERSION = "1.0"
NEWEST_VERSION = "1.0"
"""The microversions of the API that this client understands."""

CONNECT_TIMEOUT_SECONDS = 10.0
"""How long opening a connection may take."""

_REGISTER = (
    "register the API in Keystone (openstack service create, openstack endpoint create), or set the endpoint explicitly"
)

MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""The maximum size of a decompressed answer: a page has at most 10,000 entries."""

_CHUNK_BYTES = 65_536

T = TypeVar("T")


class SuccessResponse:
    """An answer with a status below 400."""

    def __init__(self, response: requests.Response, content: bytes) -> None:
        self._response = response
        self._content = content
        self.status = response.status_code
        self.etag: str = response.headers.get("ETag", "")
        self.epoch: str = response.headers.get("X-Watcher-Sync-Epoch", "")
        """The epoch of the seq in the answer; empty: it has none."""

    def read(self, into: type[T]) -> T:
        """Decodes the body.

        :param into: the expected type.
        :raises UnexpectedResponse: when the body is not of this type.
        """
        try:
            return msgspec.json.decode(self._content, type=into)
        except UNDECODABLE as exc:
            raise UnexpectedResponse(f"the answer of {self._response.url} is not one of this API: {exc}") from None


class RepeatedParameter(tuple[str, ...]):
    """The values of a parameter that a request has several times."""


class Transport:
    """Requests to one API. Used by one thread at a time."""

    def __init__(self, adapter: adapter.Adapter, *, timeout: float = 30.0) -> None:
        """:param adapter: has the session and the endpoint: the root of the service, with or without ``/v1``. Its
            ``default_microversion`` is the version of all requests; without one, the client and the API agree on one.

        :param timeout: seconds that an answer may take, in addition to the time that the request asks the API to wait.
        """
        self._adapter = adapter
        share_between_threads(adapter.auth or adapter.session.auth)
        self._timeout = timeout
        self._root = ""
        self._version = adapter.default_microversion or NEWEST_VERSION

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        wait: float = 0.0,
        confidential: bool = False,
        is_again: bool = False,
    ) -> SuccessResponse:
        """Sends one request.

        :param query: parameters; None is left out. A sequence is joined by commas; a
            :class:`RepeatedParameter` is sent as it is.
        :param body: a value that JSON can represent.
        :param wait: seconds that the request asks the API to wait.
        :param confidential: keep the request and its answer out of the debug log; one of them has a secret.
        :param is_again: whether it is sent again with another microversion, which happens once.
        :raises ClientError: when the request fails for any reason.
        """
        sent = {
            "Accept": "application/json",
            "OpenStack-API-Version": f"{SERVICE_TYPE} {self._version}",
            **(headers or {}),
        }
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
                params={
                    name: list(value) if isinstance(value, RepeatedParameter) else _text(value)
                    for name, value in (query or {}).items()
                    if value is not None
                },
                timeout=(min(CONNECT_TIMEOUT_SECONDS, self._timeout), self._timeout + wait),
                user_agent="watcher-sync-client",
                log=not confidential,
                redirect=False,  # another host would receive the token
                stream=True,
                **more,
            )
            content = _content(response)
        except (keystone.ClientException, OSError) as exc:
            raise _failure(exc) from exc
        if response.is_redirect:
            raise _redirected("endpoint", response)
        if response.status_code >= 400:
            refusal = _refusal(response, content)
            if is_again or not self._has_agreed(refusal):
                raise refusal
            return self.request(
                method, path, query=query, body=body, headers=headers, wait=wait, confidential=confidential,
                is_again=True,
            )  # fmt: skip
        return SuccessResponse(response, content)

    def for_thread(self) -> Transport:
        """Makes a transport for another thread: the same credentials and endpoint, but its own connections."""
        old = self._adapter.session
        own = session.Session(
            auth=old.auth, verify=old.verify, cert=old.cert, timeout=old.timeout, redirect=old.redirect
        )
        pinned = self._adapter.default_microversion
        made = Transport(
            adapter.Adapter(own, auth=self._adapter.auth, default_microversion=pinned), timeout=self._timeout
        )
        made._root, made._version = self._endpoint(), self._version
        return made

    @property
    def root(self) -> str:
        """The root of the service.

        :raises ClientError: when the catalog cannot be read or has no such service.
        """
        try:
            return self._endpoint()
        except keystone.ClientException as exc:
            raise _failure(exc) from exc

    @property
    def verify(self) -> bool | str:
        """Whether the session checks certificates, or the path of the authorities that it trusts."""
        found: bool | str | None = self._adapter.session.verify
        return True if found is None else found

    @property
    def cert(self) -> tuple[str, str] | None:
        """The paths of the session's client certificate and of its key, for mutual TLS."""
        found = self._adapter.session.cert
        return (found, found) if isinstance(found, str) else found

    def token(self) -> str:
        """The token, renewed if it expires soon; empty without authentication. For every thread.

        :raises ClientError: when Keystone refuses the credentials or gives no answer.
        """
        try:
            headers = self._adapter.session.get_auth_headers(self._adapter.auth)
        except (keystone.ClientException, OSError) as exc:
            raise _failure(exc) from exc
        return str((headers or {}).get("X-Auth-Token", ""))

    def forget_token(self) -> None:
        """Make the next request use a new token. For every thread."""
        self._adapter.session.invalidate(self._adapter.auth)

    def token_life(self) -> float | None:
        """The seconds until the token expires; None if the kind of credentials does not say it. For every thread.

        :raises ClientError: when Keystone refuses the credentials or gives no answer.
        """
        auth = self._adapter.auth or self._adapter.session.auth
        if not isinstance(auth, BaseIdentityPlugin):
            return None
        try:
            expires = auth.get_access(self._adapter.session).expires
        except (keystone.ClientException, OSError) as exc:
            raise _failure(exc) from exc
        return None if expires is None else (expires - datetime.datetime.now(datetime.UTC)).total_seconds()

    def project_id(self) -> str:
        """The id of the project that the token is for; empty without one.

        :raises ClientError: when Keystone refuses the credentials or gives no answer.
        """
        try:
            return str(self._adapter.session.get_project_id(self._adapter.auth) or "")
        except (keystone.ClientException, OSError) as exc:
            raise _failure(exc) from exc

    def _has_agreed(self, refusal: ClientError) -> bool:
        """Whether the API refused the microversion, and there is another one that both know; then it is chosen."""
        document = refusal.document if isinstance(refusal, ProblemError) else {}
        if self._adapter.default_microversion or not document.keys() >= {"min_version", "max_version"}:
            return False
        try:
            oldest = max(map(parse_version_string, (document["min_version"], OLDEST_VERSION)))
            newest = min(map(parse_version_string, (document["max_version"], NEWEST_VERSION)))
        except TypeError:
            return False
        if newest < oldest or str(newest) == self._version:
            return False
        self._version = str(newest)
        return True

    def _endpoint(self) -> str:
        """The root of the service, read from the catalog once."""
        if not self._root:
            found = self._adapter.get_endpoint()
            if not found:
                names = (("region", self._adapter.region_name), ("interface", self._adapter.interface))
                asked = "".join(f" with the {what} {name}" for what, name in names if name)
                raise NotConfigured(f"no endpoint of the type {SERVICE_TYPE}{asked}: {_REGISTER}")
            if not re.match("https?://[^/]", found):
                raise NotConfigured(f"the endpoint must be like http://HOST:PORT, not {found!r}")
            self._root = found.rstrip("/").removesuffix("/v1")
        return self._root


def segment(text: str, *, slash: bool = False) -> str:
    """Encodes a text as one segment of a path.

    :param slash: whether the text may contain slashes, as the ids of some kinds do.
    :raises InvalidId: when the text would change the path. HTTP libraries and proxies resolve dots, even encoded ones.
    """
    parts = text.split("/") if slash else [text]
    if any(part in ("", ".", "..") or "/" in part for part in parts):
        raise InvalidId(f"the id {text!r} cannot be part of a path; a list contains the entity")
    return urllib.parse.quote(text, safe="")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def _failure(exc: Exception) -> ClientError:
    """The client's error for an exception of keystoneauth or requests."""
    text = " ".join(str(exc).split()) or type(exc).__name__
    server = re.search(r"https?://[^/\s]+", text)
    if isinstance(exc, keystone.SSLError):
        return NotConfigured(f"{server[0]}: {cause_of(exc)}" if server and cause_of(exc) else text)
    if isinstance(exc, keystone.InvalidResponse) and exc.response.is_redirect:
        return _redirected("auth_url", exc.response)
    if isinstance(exc, (keystone.ConnectionError, requests.RequestException)):
        in_time = not isinstance(exc, (keystone.ConnectTimeout, requests.Timeout))
        cause = (cause_of(exc) or "no answer of HTTP") if in_time else "no answer in time"
        return Unreachable(f"{server[0]}: {cause}" if server else text)
    if isinstance(exc, keystone.HttpError):
        status = int(exc.http_status or 500)
        return problem_error(status, f"Keystone: {text}", errors=(), retry_after=None, document={})
    if isinstance(exc, keystone.EndpointNotFound):
        return NotConfigured(f"{text}: {_REGISTER}")
    return NotConfigured(text)


def _redirected(option: str, response: requests.Response) -> NotConfigured:
    """The client's error for a redirect.

    :param option: where the user sets the address.
    """
    location = urllib.parse.urljoin(response.url, response.headers["Location"])
    return NotConfigured(
        f"{_root_of(response.url)} redirects to {_root_of(location)}, which would receive the credentials: "
        f"a redirect is not followed; set {option} to the address that answers"
    )


def _root_of(url: str) -> str:
    """The scheme, host and port: the rest may have secrets."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _content(response: requests.Response) -> bytes:
    """Reads a body, and decompresses it while it arrives, so that a small body cannot fill the memory.

    :raises OversizedAnswer: when the body has more than :data:`MAX_ANSWER_BYTES`.
    """
    content = io.BytesIO()
    with response:
        for chunk in response.iter_content(_CHUNK_BYTES):
            content.write(chunk)
            if content.tell() > MAX_ANSWER_BYTES:
                raise OversizedAnswer(f"the answer of {response.url} has more than {MAX_ANSWER_BYTES} bytes")
    return content.getvalue()


def _refusal(response: requests.Response, content: bytes) -> ClientError:
    """The client's error for an answer. If the body is no problem document, the message has status and URL."""
    try:
        document = msgspec.json.decode(content)
        errors = msgspec.convert(document.get("errors", []), list[FieldError])
        detail = str(document.get("detail") or document["title"])
    except (*UNDECODABLE, AttributeError, KeyError, TypeError, ValueError):
        document, errors = {}, []
        detail = f"{response.status_code} {response.reason} from {response.url}, which is no answer of this API"
    return problem_error(
        response.status_code,
        detail,
        errors=errors,
        retry_after=_seconds(response.headers.get("Retry-After")),
        document=document,
    )


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None
