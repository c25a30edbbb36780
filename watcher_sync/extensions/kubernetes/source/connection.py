# SPDX-License-Identifier: Apache-2.0
"""Sends GET requests to one cluster's API server, and maps every failure to one of two exceptions.

:mod:`~watcher_sync.extensions.kubernetes.source.credentials` loads the address and the credentials.

* Each request has a connect timeout and a read timeout. TCP keepalive probes detect a dead peer.
* Before they expire, and when a file that was read has changed, the credentials are read again. If changed files cannot
  be used, the former credentials remain in use until a request fails.
* After a 401 they are read again too, and the request is sent once more. So it is after a TLS error, if a plugin's
  certificate worked before.
* An answer is decompressed while it arrives, up to a maximum size.

Thread-safe.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import urllib3
from oslo_log import log

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.extensions.kubernetes.source.credentials import Access, ApiClient, CredentialsError, load_client
from watcher_sync.extensions.kubernetes.source.kubeconfig import Files

LOG = log.getLogger(__name__)

MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
"""The default maximum of a decompressed answer."""

_MAX_ERROR_BYTES: Final = 1024 * 1024
_CHUNK_BYTES: Final = 1024 * 1024
_MAX_MESSAGE_CHARS: Final = 200
_MAX_RETRY_AFTER_SECONDS: Final = 300.0


class KubernetesError(Exception):
    """The base of all failures of a request."""

    retry_after: float | None = None
    """Seconds that the server asks the client to wait."""


class TransportError(KubernetesError):
    """The server did not answer, its answer was cut off, or the answer is malformed."""


class TooLarge(TransportError):
    """An answer, or an event of a watch, has more bytes than the client takes."""


class TimedOut(TransportError):
    """No byte arrived within the read timeout."""


class ApiError(KubernetesError):
    """The server answered with an error.

    :ivar code: the HTTP status, or the code of the Status object.
    :ivar reason: the machine-readable reason of the Status object, such as Expired.
    """

    def __init__(self, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        text = f"{code} {reason}: {message}" if reason else f"{code} {message}"
        super().__init__(text[:_MAX_MESSAGE_CHARS])
        self.code = code
        self.reason = reason
        self.retry_after = None if retry_after is None else min(max(retry_after, 0.0), _MAX_RETRY_AFTER_SECONDS)

    @property
    def gone(self) -> bool:
        """Whether the requested resource version, or the rest of a list, is no longer available."""
        return self.code == 410 or self.reason in ("Expired", "Gone")


class _Details(msgspec.Struct):
    retry_after: float | None = msgspec.field(default=None, name="retryAfterSeconds")


class _Status(msgspec.Struct):
    code: int = 0
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


def api_error(body: bytes, *, code: int = 0, retry_after: str | None = None) -> ApiError:
    """Build the exception for a Status object.

    :param code: the HTTP status, where the object came as an answer.
    :param retry_after: the header; only seconds are parsed, which is the form that API servers send.
    """
    try:
        status = msgspec.json.decode(body, type=_Status)
    except UNDECODABLE:
        status = _Status()
    seconds = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
    if seconds is None and status.details is not None and status.details.retry_after:
        seconds = status.details.retry_after
    message = " ".join((status.message or "").split()) or "no message"
    return ApiError(code or status.code, status.reason or "", message, seconds)


class NotServed(KubernetesError):
    """The server answered that it does not have this kind, at any version."""


class ApiConnection:
    """A pool of connections to one API server, with its credentials."""

    def __init__(self, access: Access, *, connect_timeout: float, read_timeout: float) -> None:
        """:param connect_timeout: seconds, TLS included.

        :param read_timeout: seconds without a byte after which a connection counts as dead.
        """
        self._access = access
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        # Guards the attributes below; held while the credentials are read.
        self._lock = threading.Lock()
        self._client: ApiClient | None = None
        self._client_number = 0
        self._proven_number = 0
        """The client that got an answer last. Written without the lock."""
        self._files = Files()
        self._attempts = 0
        self._failure: TransportError | None = None
        """Why the last attempt to read the credentials failed."""

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            if self._client is not None:
                self._client.pool.clear()

    def read(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        accept: str = "application/json",
        read_timeout: float | None = None,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> bytes:
        """Return the whole body of an answer. For the other arguments see :meth:`open`.

        :param max_bytes: the maximum size of the decompressed body.
        :raises ApiError, TransportError: see the module. A larger body raises TooLarge.
        """
        response = self.open(path, query or {}, accept=accept, read_timeout=read_timeout)
        try:
            return _read_bounded(response, max_bytes)
        except TransportError:
            _discard(response)
            raise
        finally:
            response.release_conn()

    def open(
        self, path: str, query: Mapping[str, str], *, accept: str, read_timeout: float | None = None
    ) -> urllib3.BaseHTTPResponse:
        """Return an answer with an unread body. The caller reads it in :func:`transport_errors` and closes it.

        :param read_timeout: seconds, instead of the connection's own.
        :raises ApiError, TransportError: see the module.
        """
        client, number, attempts = self._current_client()
        try:
            response = self._request(client, number, path, query, accept, read_timeout)
        except TransportError as exc:
            if not self._replace_client(number, attempts, exc):
                raise
            client, number, _ = self._current_client()
            response = self._request(client, number, path, query, accept, read_timeout)
        if response.status == 401:
            _discard(response)
            self._forget_client(number)
            client, number, _ = self._current_client()
            response = self._request(client, number, path, query, accept, read_timeout)
        if response.status == 200:
            if "html" in response.headers.get("Content-Type", ""):
                _discard(response)
                raise TransportError("the answer is a page of HTML, as from a gateway that asks for a login")
            return response
        if location := response.get_redirect_location():
            _discard(response)
            raise ApiError(response.status, "", f"the server redirects to {location.partition('?')[0]}")
        try:
            body = _read_bounded(response, _MAX_ERROR_BYTES)
        finally:
            _discard(response)
        raise api_error(body, code=response.status, retry_after=response.headers.get("Retry-After"))

    def _request(
        self,
        client: ApiClient,
        number: int,
        path: str,
        query: Mapping[str, str],
        accept: str,
        read_timeout: float | None,
    ) -> urllib3.BaseHTTPResponse:
        timeout = urllib3.Timeout(connect=self._connect_timeout, read=read_timeout or self._read_timeout)
        with transport_errors():
            response = client.get(path, query, {"Accept": accept}, timeout)
        self._proven_number = number
        return response

    def _current_client(self) -> tuple[ApiClient, int, int]:
        """The client, its number, and how often the credentials were read until now.

        Threads that waited for an attempt to read the credentials share its failure. Otherwise each of them would wait
        for the time limit of an exec plugin, one after the other.
        """
        attempts = self._attempts
        with self._lock:
            if self._client is None or self._client.is_due():
                if self._failure is not None and self._attempts > attempts:
                    raise TransportError(str(self._failure)) from self._failure
                self._load()
            elif self._files.have_changed():
                try:
                    self._load()
                except TransportError as exc:
                    LOG.warning("The changed credentials are not used, and the former ones remain in use: %s", exc)
            assert self._client is not None
            return self._client, self._client_number, self._attempts

    def _load(self) -> None:
        """Read the credentials. The caller holds the lock.

        :raises TransportError: the credentials cannot be read; says why.
        """
        self._failure = None
        self._files = Files()
        try:
            client = load_client(self._access, self._files)
        except CredentialsError as exc:
            self._failure = TransportError(f"the credentials cannot be read: {_describe(exc)}")
            raise self._failure from exc
        finally:
            self._attempts += 1
        client.pool.connection_pool_kw["socket_options"] = _keepalive()
        self._client = client
        self._client_number += 1

    def _forget_client(self, number: int) -> None:
        """Have the credentials read again, unless another thread did so since this client was in use."""
        with self._lock:
            if self._client_number == number:
                self._client = None

    def _replace_client(self, number: int, attempts: int, error: TransportError) -> bool:
        """Have the credentials read again if that may help a request that failed; whether to send it again.

        It may help if changed files could not be used. It may also help if TLS failed and a plugin's certificate worked
        before: it may have expired. TLS 1.3 tells it after the handshake, and the end of the connection may come
        first. A certificate that never worked is no reason, or the plugin would run at each attempt.
        """
        with self._lock:
            if self._attempts == attempts and self._client is not None:  # else another thread has tried
                if self._failure is not None:
                    with contextlib.suppress(TransportError):  # the first failure was logged
                        self._load()
                elif (
                    self._client.has_issued_certificate
                    and self._proven_number == number
                    and isinstance(error.__cause__, urllib3.exceptions.SSLError | urllib3.exceptions.ProtocolError)
                ):
                    self._client = None
                    return True
            return self._client is not None and self._client_number != number


@contextlib.contextmanager
def transport_errors() -> Iterator[None]:
    """Convert the errors of the HTTP library to :class:`TransportError`."""
    try:
        yield
    except (urllib3.exceptions.ReadTimeoutError, TimeoutError) as exc:
        raise TimedOut("the read timed out") from exc
    except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as exc:
        # The library raises the last two when another thread closes its socket.
        raise TransportError(_describe(exc)) from exc


def _read_bounded(response: urllib3.BaseHTTPResponse, max_bytes: int) -> bytes:
    """Decompress a body while it arrives, so that a small body cannot fill the memory.

    :raises TransportError: the body has more bytes (TooLarge), or the transport failed.
    """
    body = io.BytesIO()
    with transport_errors():
        for chunk in response.stream(_CHUNK_BYTES, decode_content=True):
            body.write(chunk)
            if body.tell() > max_bytes:
                raise TooLarge(f"the answer has more than {max_bytes} bytes")
    return body.getvalue()


def _discard(response: urllib3.BaseHTTPResponse) -> None:
    with contextlib.suppress(urllib3.exceptions.HTTPError, OSError):
        response.close()


def _describe(error: BaseException) -> str:
    text = " ".join(str(error.args[-1] if error.args else error).split())
    return f"{type(error).__name__}: {text}"[:_MAX_MESSAGE_CHARS]


def _keepalive() -> list[tuple[int, int, int]]:
    """Probe after 30 s of silence, then every 10 s, three times: within the read timeout."""
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options
