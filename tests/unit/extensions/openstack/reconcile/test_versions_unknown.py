# SPDX-License-Identifier: Apache-2.0
"""Why a service names no microversions is said: what came instead, or what TLS refuses."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator

import pytest
import trustme

from tests.nova_sites import NovaSite
from tests.waiting import deadline
from watcher_sync.extensions.openstack.cloud.errors import CloudError
from watcher_sync.testing.openstack import Answer, ApiError, FakeOpenStack, Garbage


def why(site: NovaSite) -> str:
    with pytest.raises(CloudError) as caught:
        site.cloud_account.client(time.monotonic() + deadline(60)).negotiate("compute", (2, 96))
    return str(caught.value)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Garbage(b"<html>"), "compute /v2.1: it does not name its microversions; it answers text/html"),
        (Answer(ApiError(403, "not here")), "compute /v2.1: 403: not here"),
        (Answer(ApiError(404, "no")), "compute /v2.1: 404"),
        (Answer(ApiError(503, "soon")), "compute /v2.1: 503: soon"),
    ],
)
def test_an_answer_without_microversions_is_shown(site: NovaSite, cloud: FakeOpenStack, action, expected):
    cloud.fail(action, service="compute", when=lambda request: request.path.rstrip("/") in ("", "/v2.1"), count=None)
    assert why(site) == expected


@contextlib.contextmanager
def served(certificate: trustme.LeafCert) -> Iterator[str]:
    """The URL of a server that clients may connect to, and that ends each connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accept)
        thread.start()
        yield f"https://127.0.0.1:{server.getsockname()[1]}/v2.1"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(deadline(30))


@pytest.mark.parametrize(
    ("is_known", "host", "reason"),
    [
        (False, "127.0.0.1", "unable to get local issuer certificate"),
        (True, "nova.example.com", "it is for another host"),
    ],
)
def test_a_certificate_that_cannot_be_verified_is_the_reason(cloud, tmp_path, is_known, host, reason):
    authority = trustme.CA()
    (authority if is_known else trustme.CA()).cert_pem.write_to_path(tmp_path / "ca.pem")
    with served(authority.issue_cert(host)) as url:
        endpoints = cloud._endpoints()
        cloud._identity._endpoints = lambda: {**endpoints, "compute": url}
        site = NovaSite(tmp_path, cloud, cafile=tmp_path / "ca.pem")
        said = why(site)
        site.close()
    assert said == f"compute: the certificate cannot be verified: {reason}"
