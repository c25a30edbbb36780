# SPDX-License-Identifier: Apache-2.0
"""Which cluster and which user a kubeconfig names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from watcher_sync.sources.kubernetes.credentials import Access, CredentialsError, load_client
from watcher_sync.sources.kubernetes.kubeconfig import KubeconfigError, find_paths, read_kubeconfig


def _write(
    path: Path, *, user: dict[str, Any] | None = None, server: str = "http://127.0.0.1:1", **cluster: Any
) -> str:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def _client(path: str) -> Any:
    return load_client(Access(kubeconfig=path)).api_client


def _header(path: str) -> str:
    return str(_client(path).configuration.auth_settings()["BearerToken"]["value"])


def test_the_first_file_that_has_a_name_wins(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    _write(first, server="http://first")
    _write(second, server="http://second")
    missing = str(tmp_path / "missing")
    found = read_kubeconfig(os.pathsep.join([missing, str(first), str(second)]), None)
    assert found.cluster.text("server") == "http://first"


def test_without_an_option_the_environment_and_then_the_home_directory_count(tmp_path):
    assert find_paths(None, {"KUBECONFIG": f"/a{os.pathsep}/b"}) == [Path("/a"), Path("/b")]
    assert find_paths(None, {}) == [Path.home() / ".kube" / "config"]


def test_each_kind_of_password_becomes_a_header(tmp_path):
    (tmp_path / "token").write_text("of a file\n")
    config = tmp_path / "kubeconfig"
    assert _header(_write(config, user={"token": "abc", "tokenFile": "token"})) == "Bearer abc"
    assert _header(_write(config, user={"tokenFile": "token"})) == "Bearer of a file"
    assert _header(_write(config, user={"username": "a", "password": "b"})) == "Basic YTpi"
    oidc = {"auth-provider": {"name": "oidc", "config": {"id-token": "xyz", "refresh-token": "r"}}}
    assert _header(_write(config, user=oidc)) == "Bearer xyz"


def test_the_address_the_proxy_and_the_name_in_the_certificate_are_set(tmp_path):
    options = {"proxy-url": "http://proxy:3128", "tls-server-name": "api.edge", "insecure-skip-tls-verify": True}
    configuration = _client(_write(tmp_path / "kubeconfig", server="https://10.0.0.1:6443/", **options)).configuration
    assert configuration.host == "https://10.0.0.1:6443"
    assert configuration.proxy == "http://proxy:3128"
    assert configuration.tls_server_name == "api.edge"
    assert configuration.verify_ssl is False


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"auth-provider": {"name": "gcp", "config": {"cmd-path": "/bin/true"}}}, "auth-provider of the user 'u'"),
        ({"tokenFile": "missing"}, "missing: No such file or directory"),
        ({"token": 12345}, "token of 'u' must be a string"),
    ],
)
def test_a_user_that_cannot_work_is_named(tmp_path, user, message):
    with pytest.raises(CredentialsError, match=message):
        _client(_write(tmp_path / "kubeconfig", user=user))


def test_a_quoted_boolean_does_not_switch_verification_off(tmp_path):
    with pytest.raises(CredentialsError, match="insecure-skip-tls-verify of 'c' must be true or false"):
        _client(_write(tmp_path / "kubeconfig", server="https://x", **{"insecure-skip-tls-verify": "false"}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is no kubeconfig"),
        ("users:\n- user: {token: 'sensitive\n", "is no YAML"),
        ("clusters: []", "current-context is not set"),
        ("current-context: x", "contexts has no entry 'x'"),
        ("current-context: x\ncontexts: {x: y}", "contexts must be a list"),
        ("current-context: x\ncontexts: [{name: x, context: {}}]", "the context 'x' names no cluster"),
        ("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]", "clusters has no entry 'c'"),
    ],
)
def test_a_file_that_cannot_work_is_named_with_what_it_lacks(tmp_path, content, message):
    (tmp_path / "kubeconfig").write_text(content)
    with pytest.raises(KubeconfigError, match=message) as caught:
        read_kubeconfig(str(tmp_path / "kubeconfig"), None)
    assert "kubeconfig" in str(caught.value)
    assert "sensitive" not in str(caught.value)


def test_a_missing_or_a_huge_file_is_named(tmp_path):
    with pytest.raises(KubeconfigError, match="there is no such file"):
        read_kubeconfig(str(tmp_path / "missing"), None)
    (tmp_path / "huge").write_bytes(b"#" * 5_000_000)
    with pytest.raises(KubeconfigError, match="is larger than"):
        read_kubeconfig(str(tmp_path / "huge"), None)
