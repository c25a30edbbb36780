# SPDX-License-Identifier: Apache-2.0
"""Certificates of the server, which :meth:`Certificates.reload` replaces for new connections.

Open connections go on with the certificate of their handshake.
"""

from __future__ import annotations

import threading
from pathlib import Path

import grpc

from watcher_sync.exceptions import ConfigError


class Certificates:
    """The certificate of the server and the authority of its clients. Used by the threads of gRPC."""

    def __init__(self, cert: str, key: str, client_ca: str | None = None) -> None:
        """:param client_ca: the file of the authority of client certificates; None: clients need none.

        :raises ConfigError: a file cannot be read.
        """
        self._paths = (cert, key, client_ca)
        # Guards _current, which the threads of gRPC take.
        self._lock = threading.Lock()
        self._current = self._read()

    def credentials(self) -> grpc.ServerCredentials:
        """For a port of the server."""
        return grpc.dynamic_ssl_server_credentials(
            self._current, self._take, require_client_authentication=self._paths[2] is not None
        )

    def reload(self) -> None:
        """Read the files again, for new connections.

        :raises ConfigError: a file cannot be read; the certificates before remain in use.
        """
        config = self._read()
        with self._lock:
            self._current = config

    def _take(self) -> grpc.ServerCertificateConfiguration:
        """gRPC calls it before each handshake; what it has already changes nothing."""
        with self._lock:
            return self._current

    def _read(self) -> grpc.ServerCertificateConfiguration:
        cert, key, client_ca = self._paths
        pair = (_content("tls_key", key), _content("tls_cert", cert))
        root = None if client_ca is None else _content("tls_client_ca", client_ca)
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=root)


def _content(option: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        raise ConfigError(f"[outlet_watch] {option}: {path}: {exc.strerror or exc}") from None
