# SPDX-License-Identifier: Apache-2.0
"""Loads the address and the credentials of a cluster into a pool of connections.

The official client reads the service account of a pod. A kubeconfig is read here, because that client writes private
keys into the temporary folder, where they remain after a kill. It runs exec plugins without a time limit, ignores
impersonation, and has other rules for proxies than kubectl.

Here OpenSSL reads a certificate and its key from a file in memory (``memfd_create``), which ends with the call.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import os
import ssl
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import urllib3

from watcher_sync.extensions.kubernetes.source.exec_credential import (
    ExecError,
    ExecSettings,
    ExecStatus,
    get_credentials,
)
from watcher_sync.extensions.kubernetes.source.kubeconfig import (
    Files,
    Kubeconfig,
    KubeconfigCluster,
    KubeconfigError,
    KubeconfigUser,
    Section,
    read_kubeconfig,
    read_service_account,
)
from watcher_sync.extensions.kubernetes.source.proxy import Proxy, ProxyError, find_proxy

_RENEW_BEFORE: Final = datetime.timedelta(seconds=10)
"""How long before its expiry a credential is replaced; half of its lifetime, if that is shorter."""

_MAX_IDLE: Final = 32
"""Connections without a request that stay open."""

_SAFE_IN_KEYS: Final = "!#$&'*+^`|~"
"""What a header's name may have beside letters, digits and ``_.-``."""


class Access(msgspec.Struct, frozen=True):
    """Where the credentials come from."""

    kubeconfig: str | None = None
    """Path; None: kubectl's search order."""
    context: str | None = None
    in_cluster: bool = False
    exec_settings: ExecSettings = ExecSettings()


class CredentialsError(Exception):
    """The credentials cannot be read; says why."""


class ApiClient(msgspec.Struct, frozen=True):
    """Connections to one API server, and who we are there. For any thread."""

    base_url: str
    """Without a slash at its end."""
    headers: urllib3.HTTPHeaderDict
    """Of each request."""
    pool: urllib3.PoolManager
    renew_at: datetime.datetime | None = None
    """When the credentials must be loaded again."""
    has_issued_certificate: bool = False
    """Whether an exec plugin issued the client certificate."""

    def is_due(self) -> bool:
        """Whether the credentials must be loaded again."""
        return self.renew_at is not None and datetime.datetime.now(datetime.UTC) >= self.renew_at

    def get(
        self, path: str, query: Mapping[str, str], headers: Mapping[str, str], timeout: urllib3.Timeout
    ) -> urllib3.BaseHTTPResponse:
        """Send a GET request. It follows no redirect and is not repeated.

        :param query: may be empty.
        :raises urllib3.exceptions.HTTPError: no answer came.
        """
        sent = self.headers.copy()
        sent.update(headers)
        url = self.base_url + path + ("?" + urllib.parse.urlencode(query) if query else "")
        # The method of ProxyManager would join repeated headers into one, so a pod would have one group "a, b".
        return urllib3.PoolManager.urlopen(
            self.pool,
            "GET",
            url,
            redirect=False,
            headers=sent,
            preload_content=False,
            retries=False,
            timeout=timeout,
        )


def check_access(access: Access) -> None:
    """Refuse what can never work, without running a program, and without reading the files that a kubeconfig names.

    :raises CredentialsError: see the class.
    """
    _read(access, Files())


def _read(access: Access, files: Files) -> tuple[Kubeconfig, Proxy | None]:
    """:raises CredentialsError: see the class."""
    try:
        if access.in_cluster:
            found = read_service_account()
        else:
            found = read_kubeconfig(access.kubeconfig, access.context, files)
        cluster = found.cluster.values
        return found, find_proxy(cluster.server or "", cluster.proxy_url)
    except KubeconfigError as exc:
        raise CredentialsError(str(exc)) from exc
    except ProxyError as exc:
        raise CredentialsError(f"the proxy {exc}") from exc


def load_client(access: Access, files: Files | None = None) -> ApiClient:
    """Load the credentials.

    :param files: remembers what was read.
    :raises CredentialsError: see the class.
    """
    files = files or Files()
    found, proxy = _read(access, files)
    try:
        status = ExecStatus()
        if found.user.values.exec is not None and not found.user.values.has_login:
            status = get_credentials(found, access.exec_settings, files)
        headers = _headers(found.user, _authorization(found.user, status, files))
        pool = _pool(found.cluster.values, proxy, _tls_context(found, status, files))
    except (KubeconfigError, ExecError) as exc:
        raise CredentialsError(str(exc)) from exc
    except (OSError, ValueError) as exc:
        raise CredentialsError(f"{type(exc).__name__}: {exc}") from exc
    if not found.cluster.values.disable_compression:
        headers["Accept-Encoding"] = "gzip"
    url = urllib.parse.urlsplit(found.cluster.values.server or "")
    base_url = f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}"
    issued = status.client_certificate_data is not None
    return ApiClient(base_url, headers, pool, _renew_at(status.expiration_timestamp), issued)


def _pool(cluster: KubeconfigCluster, proxy: Proxy | None, context: ssl.SSLContext) -> urllib3.PoolManager:
    options: dict[str, Any] = {"maxsize": _MAX_IDLE, "ssl_context": context}
    if cluster.tls_server_name:
        options["server_hostname"] = cluster.tls_server_name
    if proxy is None:
        return urllib3.PoolManager(**options)
    if proxy.is_socks:
        from urllib3.contrib.socks import SOCKSProxyManager  # not at the top: needs PySocks

        return SOCKSProxyManager(proxy.url, proxy.user, proxy.password, **options)
    login = {} if proxy.user is None else {"Proxy-Authorization": _basic(proxy.user, proxy.password)}
    return urllib3.ProxyManager(proxy.url, proxy_headers=login, proxy_ssl_context=context, **options)


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _headers(user: Section[KubeconfigUser], authorization: str | None) -> urllib3.HTTPHeaderDict:
    """Who we are, and whom we impersonate, as client-go says it.

    :raises KubeconfigError: a value cannot be in a header.
    """
    found = [("token", "Authorization", authorization), ("as", "Impersonate-User", user.values.impersonate)]
    found.append(("as-uid", "Impersonate-Uid", user.values.as_uid))
    found += [("as-groups", "Impersonate-Group", group) for group in user.values.as_groups]
    for key, values in user.values.as_user_extra.items():
        name = "Impersonate-Extra-" + urllib.parse.quote(key, safe=_SAFE_IN_KEYS).lower()
        found += [("as-user-extra", name, value) for value in values]
    headers = urllib3.HTTPHeaderDict({"User-Agent": "watcher-sync"})
    for key, name, value in found:
        if value:
            if any((character < " " and character != "\t") or character == "\x7f" for character in value):
                raise user.error(f"{key} has a line break or another control character")
            headers.add(name, value.encode().decode("latin-1"))  # UTF-8 on the wire
    return headers


def _authorization(user: Section[KubeconfigUser], status: ExecStatus, files: Files) -> str | None:
    """The header ``Authorization``; None: the user has no token and no user name.

    :raises KubeconfigError: the file with the token cannot be read, and there is no other token.
    """
    values = user.values
    token = values.token or status.token
    if values.token_file:
        try:
            content = user.content("tokenFile", files) or b""
            token = content.decode().strip() or token
        except (KubeconfigError, UnicodeDecodeError):
            if not token:
                raise
        if not token:
            raise user.error("the tokenFile is empty")
    if token is None and values.auth_provider is not None and not values.username:
        token = (values.auth_provider.config or {}).get("id-token")
    if token:
        return f"Bearer {token}"
    return _basic(values.username, values.password or "") if values.username else None


def _tls_context(found: Kubeconfig, status: ExecStatus, files: Files) -> ssl.SSLContext:
    """The TLS settings of the cluster, with the certificate of the user."""
    context = urllib3.util.create_urllib3_context()
    if found.cluster.values.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.verify_mode = ssl.CERT_REQUIRED
        authority = found.cluster.content("certificate-authority", files)
        if authority is None:
            context.load_default_certs()
        else:
            _load_authority(context, found.cluster, authority)
    certificate, key = _certificate(found.user, status, files)
    if certificate is not None:
        try:
            with _memory_file(certificate + b"\n" + (key or b"")) as path:
                # Without a password OpenSSL would ask for that of an encrypted key on the terminal.
                context.load_cert_chain(path, password="")
        except ssl.SSLError as exc:
            raise found.user.error(f"the client certificate or key is not usable: {exc.reason or 'not PEM'}") from None
    return context


def _load_authority(context: ssl.SSLContext, cluster: Section[KubeconfigCluster], authority: bytes) -> None:
    try:
        context.load_verify_locations(cadata=authority.decode("ascii", "ignore"))  # comments may be in UTF-8
    except (ssl.SSLError, ValueError):
        raise cluster.error("the certificate authority is not PEM") from None


def _certificate(user: Section[KubeconfigUser], status: ExecStatus, files: Files) -> tuple[bytes | None, bytes | None]:
    """Certificate and private key in PEM."""
    if status.client_certificate_data and status.client_key_data:
        return status.client_certificate_data.encode(), status.client_key_data.encode()
    return user.content("client-certificate", files), user.content("client-key", files)


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[str]:
    """The path of a file that is in memory only, and that no other user can open."""
    descriptor = os.memfd_create("watcher-sync", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _renew_at(expiry: datetime.datetime | None) -> datetime.datetime | None:
    if expiry is None:
        return None
    now = datetime.datetime.now(datetime.UTC)
    expiry = expiry if expiry.tzinfo is not None else expiry.replace(tzinfo=datetime.UTC)
    return expiry - min(_RENEW_BEFORE, max((expiry - now) / 2, datetime.timedelta()))
