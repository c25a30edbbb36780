# SPDX-License-Identifier: Apache-2.0
"""Threads that use one account of Keystone get a token while others discard it."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from keystoneauth1 import adapter, session
from keystoneauth1.access.access import AccessInfoV3
from keystoneauth1.identity.generic.password import Password
from oslo_config import cfg

from watcher_sync.client.transport import Transport
from watcher_sync.conf import opts
from watcher_sync.extensions.openstack.cloud.client import OpenStackCloud

_ACCOUNT = {"auth_url": "http://127.0.0.1:9/v3", "username": "auditor", "password": "x", "user_domain_id": "default"}

Calls = tuple[Callable[[], Any], Callable[[], Any]]
"""What gets the token of an account, and what discards it."""


def reconciler(folder: Path) -> Calls:
    file = folder / "watcher-sync.conf"
    lines = [f"{name} = {value}" for name, value in {"auth_type": "password", **_ACCOUNT}.items()]
    file.write_text("\n".join(["[reconcile_nova]", *lines]))
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    conf([], default_config_files=[str(file)])
    made = OpenStackCloud(conf).adapter("placement")
    return made.get_token, made.invalidate


def client(_folder: Path) -> Calls:
    first = Transport(adapter.Adapter(session.Session(auth=Password(**_ACCOUNT)), endpoint_override="http://a"))
    return first.token, first.for_thread().forget_token


@pytest.mark.parametrize("account", [reconciler, client])
def test_a_token_that_is_discarded_as_it_comes_is_returned(
    account: Callable[[Path], Calls], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = AccessInfoV3({"token": {"expires_at": "2999-01-01T00:00:00Z"}}, auth_token="token")
    discarding = []

    def set_access(self: Any, new: AccessInfoV3 | None) -> None:
        vars(self)["access"] = new
        if new is not None:
            discarding.append(other_thread.submit(discard))
            concurrent.futures.wait(discarding, 0.2)  # wait: it ends in it, unless it is held back

    monkeypatch.setattr(Password, "auth_ref", property(lambda self: vars(self)["access"], set_access), raising=False)
    monkeypatch.setattr(Password, "get_auth_ref", lambda _self, _session, **_options: access)
    get, discard = account(tmp_path)
    with concurrent.futures.ThreadPoolExecutor(1) as other_thread:
        assert get() == "token"
        assert len(discarding) == 1
