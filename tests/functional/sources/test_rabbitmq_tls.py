# SPDX-License-Identifier: Apache-2.0
"""The driver ``rabbitmq`` over TLS, with the options of oslo.messaging: a TLS end in front of a real RabbitMQ."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.functional.sources.listening import Engine, envelope, listening, make_source, publishing, wrap
from tests.waiting import deadline, wait_until
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.extensions.openstack.source.oslo_messaging import OsloMessagingSource
from watcher_sync.extensions.openstack.source.rabbitmq.source import RabbitMQSource
from watcher_sync.sources.base import Source, SourceState


class TlsEnd:
    """Decrypts, and passes everything to the broker on this machine.

    :param client_authority: whose client certificates are required; None: none is.
    """

    def __init__(self, certificate: trustme.LeafCert, client_authority: trustme.CA | None = None) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(self._context)
        if client_authority is not None:
            client_authority.configure_trust(self._context)
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def present(self, certificate: trustme.LeafCert) -> None:
        """Present another certificate to the clients that connect from now on."""
        certificate.configure_cert(self._context)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            self._context.wrap_socket(near, server_side=True) as inner,
            socket.create_connection(("127.0.0.1", 5672)) as far,
        ):
            threading.Thread(target=self._copy, args=(far, inner), daemon=True).start()
            self._copy(inner, far)

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path) -> Path:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return tmp_path / "ca.pem"


@contextlib.contextmanager
def tls_end(certificate: trustme.LeafCert, client_authority: trustme.CA | None = None) -> Iterator[TlsEnd]:
    made = TlsEnd(certificate, client_authority)
    try:
        yield made
    finally:
        made.close()


def url_of(end: TlsEnd, query: str) -> str:
    return f"rabbit://guest:guest@127.0.0.1:{end.port}/?ssl=true&{query}"


def test_events_arrive_over_tls_from_a_server_of_the_configured_authority(authority: trustme.CA, trusted: Path) -> None:
    engine = Engine(acks=True)
    with (
        publishing() as publisher,
        tls_end(authority.issue_cert("127.0.0.1")) as end,
        listening(publisher.name, engine, url_of(end, f"ssl_ca_file={trusted}"), driver=RabbitMQSource) as source,
    ):
        for number in range(500):
            publisher.publish(wrap(envelope(number)))
        wait_until(lambda: len(engine.events) == 500)
        source.probe()
    assert [event.id for event in engine.events] == [f"m-{number}" for number in range(500)]


def test_a_client_certificate_is_presented(authority: trustme.CA, trusted: Path, tmp_path: Path) -> None:
    ours = authority.issue_cert("watcher-sync")
    ours.private_key_pem.write_to_path(tmp_path / "key.pem")
    ours.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    files = f"ssl_cert_file={tmp_path / 'cert.pem'}&ssl_key_file={tmp_path / 'key.pem'}"
    with tls_end(authority.issue_cert("127.0.0.1"), authority) as end:
        make_source("any", url_of(end, f"ssl_ca_file={trusted}&{files}"), driver=RabbitMQSource).probe()
        with pytest.raises(SourceError):
            make_source("any", url_of(end, f"ssl_ca_file={trusted}"), driver=RabbitMQSource).probe()


@pytest.mark.parametrize("wrong", ["authority", "name"])
def test_a_server_of_another_authority_or_name_is_refused_and_the_status_says_so(
    authority: trustme.CA, trusted: Path, wrong: str
) -> None:
    certificate = trustme.CA().issue_cert("127.0.0.1") if wrong == "authority" else authority.issue_cert("a.example")
    with tls_end(certificate) as end:
        source = make_source("any", url_of(end, f"ssl_ca_file={trusted}"), driver=RabbitMQSource)
        with pytest.raises(SourceError, match="certificate verify failed"):
            source.probe()
        source.start(lambda events: None)
        try:
            status = wait_until(lambda: source.status().state is SourceState.DISCONNECTED and source.status())
            assert "certificate verify failed" in status.detail
        finally:
            source.stop(time.monotonic() + deadline(5))


@pytest.mark.parametrize("driver", [RabbitMQSource, OsloMessagingSource])
def test_a_missing_certificate_file_is_reported_before_the_start(driver: type[Source]) -> None:
    url = "rabbit://guest:guest@127.0.0.1:5672/?ssl=true&ssl_ca_file=/no/such/ca.pem"
    with pytest.raises(ConfigError, match=r"\[oslo_messaging_rabbit\] ssl_ca_file: /no/such/ca.pem: No such file"):
        make_source("any", url, driver=driver)


def test_without_an_authority_any_certificate_is_accepted_as_oslo_messaging_does(authority: trustme.CA) -> None:
    with tls_end(authority.issue_cert("another.example")) as end:
        make_source("any", url_of(end, ""), driver=RabbitMQSource).probe()


@pytest.mark.parametrize("driver", [RabbitMQSource, OsloMessagingSource])
def test_both_drivers_verify_the_name_of_each_host_of_the_url(
    authority: trustme.CA, trusted: Path, driver: type[Source]
) -> None:
    def two_hosts(end: TlsEnd) -> str:
        host = f"guest:guest@127.0.0.1:{end.port}"
        return url_of(end, f"ssl_ca_file={trusted}").replace(host, f"{host},{host}")

    with publishing() as publisher:
        with (
            tls_end(authority.issue_cert("127.0.0.1")) as end,
            listening(publisher.name, Engine(acks=True), two_hosts(end), driver=driver),
        ):
            pass
        with tls_end(authority.issue_cert("elsewhere.example")) as end:
            source = make_source(publisher.name, two_hosts(end), driver=driver)
            source.start(lambda events: None)
            wait_until(lambda: source.status().state is SourceState.DISCONNECTED)
            end.present(authority.issue_cert("127.0.0.1"))  # also because the library would try to connect until then
            wait_until(lambda: source.status().state is SourceState.CONNECTED)
            source.stop(time.monotonic() + deadline(5))
