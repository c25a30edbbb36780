# SPDX-License-Identifier: Apache-2.0
"""What is renewed in a kubeconfig, and in the files that it names, counts from the next request on."""

from __future__ import annotations

import json
import os
import ssl
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trustme
from kubernetes.config import incluster_config

from tests.unit.extensions.kubernetes.source.clusters import Cluster, connect, write
from tests.waiting import deadline
from watcher_sync.extensions.kubernetes.source.connection import TransportError


def _publish(folder: Path, **contents: bytes) -> None:
    """Replace files as the kubelet does those of a Secret: each is a link through ``..data``, which is exchanged."""
    number = len(list(folder.glob("..version*")))
    version = folder / f"..version{number}"
    version.mkdir(parents=True)
    for name, content in contents.items():
        (version / name).write_bytes(content)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)
    (folder / "..next").symlink_to(version.name)
    os.replace(folder / "..next", folder / "..data")


def test_a_rotated_authority_in_a_mounted_secret_counts_without_a_restart(tmp_path):
    old, new = trustme.CA(), trustme.CA()
    _publish(tmp_path, ca=old.cert_pem.bytes())
    with Cluster(old) as cluster:
        connection = connect(write(tmp_path / "kubeconfig", cluster.url, **{"certificate-authority": "ca"}))
        connection.read("/version")
        cluster.present(new)
        with pytest.raises(TransportError, match="certificate verify failed"):
            connection.read("/version")
        _publish(tmp_path, ca=new.cert_pem.bytes())
        connection.read("/version")


def test_the_address_of_a_server_that_moved_counts_without_a_restart(tmp_path):
    with Cluster() as old, Cluster() as new:
        connection = connect(write(tmp_path / "kubeconfig", old.url))
        connection.read("/version")
        write(tmp_path / "kubeconfig", new.url)
        connection.read("/version")
        assert (len(old.requests), len(new.requests)) == (1, 1)


def test_a_renewed_client_certificate_counts_without_a_restart(tmp_path):
    authority, old, new = trustme.CA(), trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca")
    user = {"client-certificate": "certificate", "client-key": "key"}
    with Cluster(authority) as cluster:
        cluster.present(authority, old)
        connection = connect(write(tmp_path / "kubeconfig", cluster.url, user, **{"certificate-authority": "ca"}))
        issued = {which: which.issue_cert("watcher-sync") for which in (old, new)}
        for which in (old, new):
            cluster.present(authority, which)
            issued[which].cert_chain_pems[0].write_to_path(tmp_path / "certificate")
            if which is new:  # between the two files
                with pytest.raises(TransportError):
                    connection.read("/version")
            issued[which].private_key_pem.write_to_path(tmp_path / "key")
            connection.read("/version")


def test_a_kubeconfig_that_is_half_written_leaves_the_former_one_in_use(tmp_path, caplog):
    with Cluster() as old, Cluster() as new:
        config = write(tmp_path / "kubeconfig", old.url, {"token": "s3cret"})
        connection = connect(config)
        connection.read("/version")
        whole = write(tmp_path / "other", new.url, {"token": "s3cret"}).read_bytes()
        for size in (0, 30, len(whole) - 20):
            config.write_bytes(whole[:size])
            for _ in range(3):
                connection.read("/version")
        assert (len(old.requests), len(new.requests)) == (10, 0)
        told = [record.getMessage() for record in caplog.records if "kubeconfig" in record.getMessage()]
        assert len(told) == 3
        assert "s3cret" not in caplog.text
        config.write_bytes(whole)
        connection.read("/version")
        assert len(new.requests) == 1


_PLUGIN = f"""#!{sys.executable}
import json, pathlib
runs, answer = (pathlib.Path(__file__).with_name(name) for name in ("runs", "answer"))
runs.write_text(runs.read_text() + "." if runs.exists() else ".")
status = json.loads(answer.read_text()) if answer.exists() else {{"token": "t"}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


def _answer(folder: Path, authority: trustme.CA) -> None:
    """Have the plugin issue a certificate."""
    leaf = authority.issue_cert("watcher-sync")
    certificate, key = leaf.cert_chain_pems[0].bytes(), leaf.private_key_pem.bytes()
    status = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
    (folder / "answer").write_text(json.dumps(status))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_certificate_of_a_plugin_that_ceases_to_work_is_issued_again_once(tmp_path, version):
    authority, old, new = trustme.CA(), trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca")
    (tmp_path / "plugin").write_text(_PLUGIN)
    (tmp_path / "plugin").chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin"}}
    with Cluster(authority) as cluster:
        connection = connect(write(tmp_path / "kubeconfig", cluster.url, user, **{"certificate-authority": "ca"}))
        for which in (old, new):
            cluster.present(authority, which, version)
            _answer(tmp_path, which)
            connection.read("/version")
        assert (tmp_path / "runs").read_text() == ".."
        cluster.present(authority, trustme.CA(), version)
        for _ in range(5):
            with pytest.raises(TransportError):
                connection.read("/version")
        assert (tmp_path / "runs").read_text() == "..."


def test_threads_that_are_refused_together_share_the_certificate_that_one_of_them_renews(tmp_path):
    authority, old, new = trustme.CA(), trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca")
    (tmp_path / "plugin").write_text(_PLUGIN)
    (tmp_path / "plugin").chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin"}}
    with Cluster(authority) as cluster, ThreadPoolExecutor(8) as threads:
        connection = connect(write(tmp_path / "kubeconfig", cluster.url, user, **{"certificate-authority": "ca"}))
        cluster.present(authority, old)
        _answer(tmp_path, old)
        connection.read("/version")
        cluster.present(authority, new)
        _answer(tmp_path, new)
        begin = threading.Barrier(8)

        def read(_: int) -> bytes:
            begin.wait(deadline(60))
            return connection.read("/version")

        assert list(threads.map(read, range(8))) == [b"{}"] * 8
        assert (tmp_path / "runs").read_text() == ".."


def test_a_plugin_runs_again_for_a_changed_kubeconfig_and_not_for_a_server_that_is_away(tmp_path):
    (tmp_path / "plugin").write_text(_PLUGIN)
    (tmp_path / "plugin").chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin"}}
    with Cluster(token="t") as cluster:
        connection = connect(write(tmp_path / "kubeconfig", "http://127.0.0.1:1", user))
        for _ in range(5):
            with pytest.raises(TransportError):
                connection.read("/version")
        assert (tmp_path / "runs").read_text() == "."
        write(tmp_path / "kubeconfig", cluster.url, user)
        for _ in range(5):
            connection.read("/version")
        assert (tmp_path / "runs").read_text() == ".."


def test_a_changed_kubeconfig_counts_once_its_plugin_no_longer_fails(tmp_path):
    (tmp_path / "plugin").write_text(_PLUGIN)
    (tmp_path / "plugin").chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin"}}
    with Cluster() as new:
        with Cluster() as old:
            connection = connect(write(tmp_path / "kubeconfig", old.url, user))
            connection.read("/version")
            (tmp_path / "answer").write_text("{}")  # as while its own server is away
            write(tmp_path / "kubeconfig", new.url, user)
            for _ in range(3):
                connection.read("/version")
            assert len(old.requests) == 4
            assert (tmp_path / "runs").read_text() == ".."
        with pytest.raises(TransportError):  # the old server is away
            connection.read("/version")
        (tmp_path / "answer").unlink()
        connection.read("/version")
        assert len(new.requests) == 1


def test_the_service_account_of_a_pod_is_read_again_when_it_is_rotated(tmp_path, monkeypatch):
    authorities = trustme.CA(), trustme.CA()
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    with Cluster(authorities[0]) as cluster:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(cluster.port))
        connection = connect(None, in_cluster=True)
        for number, authority in enumerate(authorities):
            cluster.present(authority)
            cluster.token = f"token {number}"
            _publish(tmp_path, **{"ca.crt": authority.cert_pem.bytes(), "token": f"token {number}\n".encode()})
            connection.read("/version")
        assert [request["Authorization"] for request in cluster.requests] == ["Bearer token 0", "Bearer token 1"]
