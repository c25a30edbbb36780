# SPDX-License-Identifier: Apache-2.0
"""One cluster's API server: who we are to it, and a GET with all its ways to fail.

The official client is used for what is hard to get right and changes with the clouds: kubeconfig, contexts,
certificates, exec plugins, tokens that expire, proxies. From its ApiClient we take the pool of connections and
the credentials, and speak HTTP ourselves; none of its model classes is ever made. It is imported when the
first request is made, because it costs a second and some 50 MB that a process without Kubernetes need not pay.

Guaranteed: every request has a timeout for connecting and one for each read; a connection that is idle is
kept alive by probes, so that one whose other end is gone is noticed. On 401 the credentials are read again and
the request is made once more; a second 401 is the caller's. Whatever else goes wrong is one of two exceptions:
:class:`Refused`, the server has answered, or :class:`Broken`, it has not, or not to the end.

Thread-safe: the reflectors of a cluster share one.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
import urllib3
import yaml

_MAX_MESSAGE: Final = 200
_LONGEST_WAIT: Final = 300.0


class Access(msgspec.Struct, frozen=True):
    """Where the credentials come from."""

    kubeconfig: str | None = None
    """Path; None: as kubectl finds it."""
    context: str | None = None
    in_cluster: bool = False


class KubeError(Exception):
    """The root of what a cluster can do to a reflector."""

    retry_after: float | None = None
    """Seconds that the server wants us to wait."""


class Broken(KubeError):
    """There is no answer, or it ended in the middle, or makes no sense."""


class TimedOut(Broken):
    """Nothing came for as long as we wait."""


class Refused(KubeError):
    """The server answered with an error.

    :ivar code: the HTTP status, or the code of the Status object.
    :ivar reason: the Status's, for machines, such as Expired.
    """

    def __init__(self, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{code} {reason}: {message}"[:_MAX_MESSAGE] if reason else f"{code} {message}"[:_MAX_MESSAGE])
        self.code = code
        self.reason = reason
        self.retry_after = None if retry_after is None else min(max(retry_after, 0.0), _LONGEST_WAIT)

    @property
    def gone(self) -> bool:
        """Whether the asked resource version, or the rest of a list, is not to be had any more."""
        return self.code == 410 or self.reason in ("Expired", "Gone")


class _Details(msgspec.Struct):
    retry_after: float | None = msgspec.field(default=None, name="retryAfterSeconds")


class _Status(msgspec.Struct):
    code: int = 0
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


def refusal(status: bytes, *, code: int = 0, retry_after: str | None = None) -> Refused:
    """What a Status object means.

    :param code: of the HTTP answer, where it came as one.
    :param retry_after: the header; only seconds are understood, which is what API servers send.
    """
    try:
        told = msgspec.json.decode(status, type=_Status)
    except msgspec.DecodeError:
        told = _Status()
    seconds = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
    if seconds is None and told.details is not None and told.details.retry_after:
        seconds = told.details.retry_after
    message = " ".join((told.message or "").split()) or "no message"
    return Refused(code or told.code, told.reason or "", message, seconds)


class Connection:
    """See the module."""

    def __init__(self, access: Access, *, connect_timeout: float, read_timeout: float) -> None:
        """:param connect_timeout: seconds, TLS included.

        :param read_timeout: seconds without a byte after which a connection counts as dead.
        """
        self._access = access
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        # Guards the client and its number; held while the credentials are read.
        self._lock = threading.Lock()
        self._client: Any = None
        self._number = 0

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        with self._lock:
            if self._client is not None:
                self._client.rest_client.pool_manager.clear()

    def read(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        accept: str = "application/json",
        read_timeout: float | None = None,
    ) -> bytes:
        """The body of an answer, whole. For the arguments see :meth:`open`.

        :raises Refused, Broken: see the module.
        """
        response = self.open(path, query or {}, accept=accept, read_timeout=read_timeout)
        with reading():
            try:
                return bytes(response.read(decode_content=True))
            finally:
                response.release_conn()

    def open(
        self, path: str, query: Mapping[str, str], *, accept: str, read_timeout: float | None = None
    ) -> urllib3.BaseHTTPResponse:
        """An answer whose body is still to be read, within :func:`reading`, and to be closed.

        :param read_timeout: instead of the connection's own.
        :raises Refused, Broken: see the module.
        """
        response, number = self._request(path, query, accept, read_timeout)
        if response.status == 401:
            _drop(response)
            self._forget(number)
            response, _ = self._request(path, query, accept, read_timeout)
        if response.status == 200:
            return response
        try:
            with reading():
                body = bytes(response.read(decode_content=True))
        finally:
            _drop(response)
        raise refusal(body, code=response.status, retry_after=response.headers.get("Retry-After"))

    def _request(
        self, path: str, query: Mapping[str, str], accept: str, read_timeout: float | None
    ) -> tuple[urllib3.BaseHTTPResponse, int]:
        client, number = self._current()
        configuration = client.configuration
        headers = {"Accept": accept, "Accept-Encoding": "gzip", "User-Agent": "watcher-sync"}
        with reading():
            for setting in configuration.auth_settings().values():  # refreshes a token that is about to expire
                if setting["in"] == "header" and setting["value"]:
                    headers[setting["key"]] = setting["value"]
            return client.rest_client.pool_manager.request(
                "GET",
                configuration.host.rstrip("/") + path,
                fields=dict(query),
                headers=headers,
                preload_content=False,
                retries=False,
                timeout=urllib3.Timeout(connect=self._connect_timeout, read=read_timeout or self._read_timeout),
            ), number

    def _current(self) -> tuple[Any, int]:
        with self._lock:
            if self._client is None:
                self._client = _load(self._access)
                self._number += 1
            return self._client, self._number

    def _forget(self, number: int) -> None:
        """Have the credentials read again, if that has not happened since this client was in use."""
        with self._lock:
            if self._number == number:
                self._client = None


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Around whatever touches the network: errors of the library become :class:`Broken`."""
    try:
        yield
    except (urllib3.exceptions.ReadTimeoutError, TimeoutError) as exc:
        raise TimedOut("nothing came in time") from exc
    except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as exc:
        # The last two are what the library raises when its socket is closed under it.
        raise Broken(_describe(exc)) from exc


def _drop(response: urllib3.BaseHTTPResponse) -> None:
    with contextlib.suppress(urllib3.exceptions.HTTPError, OSError):
        response.close()


def _describe(error: BaseException) -> str:
    text = " ".join(str(error.args[-1] if error.args else error).split())
    return f"{type(error).__name__}: {text}"[:_MAX_MESSAGE]


def _load(access: Access) -> Any:
    """The official client, configured.

    :raises Broken: when the credentials cannot be read; says why.
    """
    from kubernetes import client, config  # not at the top: see the module

    load_pod: Callable[..., None] = config.load_incluster_config
    load_file: Callable[..., None] = config.load_kube_config

    configuration = client.Configuration()
    configuration.retries = False
    try:
        if access.in_cluster:
            load_pod(client_configuration=configuration)
        else:
            load_file(
                config_file=access.kubeconfig,
                context=access.context,
                client_configuration=configuration,
                persist_config=False,
            )
        made = client.ApiClient(configuration)
    except (config.ConfigException, yaml.YAMLError, OSError, ValueError, KeyError, TypeError) as exc:
        raise Broken(f"the credentials cannot be read: {_describe(exc)}") from exc
    made.rest_client.pool_manager.connection_pool_kw["socket_options"] = _keepalive()
    return made


def _keepalive() -> list[tuple[int, int, int]]:
    """Probes after 30 s of silence, every 10 s, three of them: a dead peer is noticed within the read timeout."""
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options
