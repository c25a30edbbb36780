# SPDX-License-Identifier: Apache-2.0
"""Loads the credentials of a cluster into an ApiClient of the official client.

The service account of a pod is loaded by the official client. A kubeconfig is read here, because that client writes
private keys into the temporary folder, where they remain after a kill. It also runs exec plugins without a time limit.
Here OpenSSL reads a certificate and its key from a file in memory (``memfd_create``), which ends with the call.

The official client is imported at the first use: it costs one second and some 50 MB.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import ssl
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import urllib3

from watcher_sync.sources.kubernetes.exec_credential import ExecError, ExecSettings, ExecStatus, get_credentials
from watcher_sync.sources.kubernetes.kubeconfig import Kubeconfig, KubeconfigError, Section, read_kubeconfig

_RENEW_BEFORE: Final = datetime.timedelta(seconds=10)
"""How long before its expiry a credential is replaced; half of its lifetime, if that is shorter."""


class Access(msgspec.Struct, frozen=True):
    """Where the credentials come from."""

    kubeconfig: str | None = None
    """Path; None: kubectl's search order."""
    context: str | None = None
    in_cluster: bool = False
    exec_settings: ExecSettings = ExecSettings()


class CredentialsError(Exception):
    """The credentials cannot be read; says why."""


class KubeconfigClient(msgspec.Struct, frozen=True):
    """An ApiClient, and the time at which its credentials must be loaded again."""

    api_client: Any
    renew_at: datetime.datetime | None = None

    def is_due(self) -> bool:
        """Whether the credentials must be loaded again."""
        return self.renew_at is not None and datetime.datetime.now(datetime.UTC) >= self.renew_at


def load_client(access: Access) -> KubeconfigClient:
    """Load the credentials.

    :raises CredentialsError: see the class.
    """
    from kubernetes import client, config  # not at the top: see the module

    load_in_cluster: Callable[..., None] = config.load_incluster_config
    configuration = client.Configuration()
    configuration.retries = False
    try:
        if access.in_cluster:
            load_in_cluster(client_configuration=configuration)
            return KubeconfigClient(client.ApiClient(configuration))
        found = read_kubeconfig(access.kubeconfig, access.context)
        status = get_credentials(found, access.exec_settings) if found.user.values.get("exec") else ExecStatus()
        _set_cluster(configuration, found.cluster)
        authorization = _authorization(found.user, status)
        if authorization is not None:
            configuration.api_key["BearerToken"] = authorization
        context = _tls_context(found, status)
        api_client = client.ApiClient(configuration)
    except (KubeconfigError, ExecError) as exc:
        raise CredentialsError(str(exc)) from exc
    except (config.ConfigException, OSError, ValueError, KeyError, TypeError) as exc:
        raise CredentialsError(f"{type(exc).__name__}: {exc}") from exc
    api_client.rest_client.pool_manager.connection_pool_kw["ssl_context"] = context
    return KubeconfigClient(api_client, _renew_at(status.expiration_timestamp))


def _set_cluster(configuration: Any, cluster: Section) -> None:
    """Set the address.

    :raises KubeconfigError: the cluster has none.
    """
    server = cluster.text("server")
    if server is None:
        raise KubeconfigError(f"{cluster.path}: the cluster {cluster.name!r} has no server")
    configuration.host = server.rstrip("/")
    configuration.verify_ssl = not cluster.flag("insecure-skip-tls-verify")
    configuration.tls_server_name = cluster.text("tls-server-name")
    proxy = cluster.text("proxy-url")
    if proxy is not None:
        configuration.proxy = proxy


def _authorization(user: Section, status: ExecStatus) -> str | None:
    """The header ``Authorization``; None: the user has no token and no password.

    :raises KubeconfigError: the user has a mechanism that is not supported.
    """
    if user.values.get("auth-provider") and not status.token:
        return f"Bearer {_provider_token(user)}"
    token = status.token or user.text("token")
    if token is None:
        content = user.file_content("tokenFile")
        token = content.decode().strip() if content is not None else None
    if token is not None:
        return f"Bearer {token}"
    name, password = user.text("username"), user.text("password")
    if name is None or password is None:
        return None
    return urllib3.util.make_headers(basic_auth=f"{name}:{password}")["authorization"]


def _provider_token(user: Section) -> str:
    """The token that an OpenID Connect provider gave. It is read again, but never renewed here.

    :raises KubeconfigError: the provider is another one, or there is no token.
    """
    provider = user.values["auth-provider"]
    options = provider.get("config") if isinstance(provider, dict) else None
    token = options.get("id-token") if isinstance(options, dict) and provider.get("name") == "oidc" else None
    if not isinstance(token, str) or not token:
        raise KubeconfigError(
            f"{user.path}: auth-provider of the user {user.name!r} is not supported; use exec instead"
        )
    return token


def _tls_context(found: Kubeconfig, status: ExecStatus) -> ssl.SSLContext:
    """The TLS settings of the cluster, with the certificate of the user."""
    context = urllib3.util.create_urllib3_context()
    if found.cluster.flag("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.verify_mode = ssl.CERT_REQUIRED
        authority = found.cluster.content("certificate-authority")
        if authority is None:
            context.load_default_certs()
        else:
            _load_authority(context, found.cluster, authority)
    certificate, key = _certificate(found.user, status)
    if certificate is not None:
        try:
            with _memory_file(certificate + b"\n" + (key or b"")) as path:
                # Without a password OpenSSL would ask for that of an encrypted key on the terminal.
                context.load_cert_chain(path, password="")
        except ssl.SSLError as exc:
            raise KubeconfigError(
                f"{found.user.path}: the client certificate or key of {found.user.name!r} is not usable:"
                f" {exc.reason or 'not PEM'}"
            ) from None
    return context


def _load_authority(context: ssl.SSLContext, cluster: Section, authority: bytes) -> None:
    try:
        context.load_verify_locations(cadata=authority.decode("ascii", "ignore"))  # comments may be in UTF-8
    except (ssl.SSLError, ValueError):
        raise KubeconfigError(
            f"{cluster.path}: the certificate authority of the cluster {cluster.name!r} is not PEM"
        ) from None


def _certificate(user: Section, status: ExecStatus) -> tuple[bytes | None, bytes | None]:
    """Certificate and private key in PEM.

    :raises KubeconfigError: the user has only one of the two.
    """
    if status.client_certificate_data and status.client_key_data:
        return status.client_certificate_data.encode(), status.client_key_data.encode()
    certificate, key = user.content("client-certificate"), user.content("client-key")
    if (certificate is None) != (key is None):
        raise KubeconfigError(f"{user.path}: the user {user.name!r} needs both client-certificate and client-key")
    return certificate, key


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
