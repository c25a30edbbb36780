# SPDX-License-Identifier: Apache-2.0
"""The tokens of a stream under Keystone and with signed JWTs, with and without their scheme, as agents send them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from keystonemiddleware.fixture import AuthTokenFixture
from oslo_config import cfg

from tests.functional.storage.conftest import on_one_database
from tests.functional.watch.clients import SELF_LINK, STOCK, WatchClient, channel_to
from tests.functional.watch.serving import joined, serving
from tests.functional.webhooks.subscribing import Instances
from tests.waiting import wait_until
from watcher_sync.conf import keystone, opts
from watcher_sync.extensions.watch.callers import make_authenticator
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

SECRET = "0123456789abcdef0123456789abcdef"

MakeToken = Callable[..., str]


@pytest.fixture(params=["keystone", "jwt"])
def strategy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def conf(strategy: str, tmp_path: Path) -> cfg.ConfigOpts:
    made = cfg.ConfigOpts()
    opts.register_opts(made)
    made([], default_config_files=[], default_config_dirs=[])
    made.set_override("state_path", str(tmp_path))
    made.set_override("auth_strategy", strategy, group="outlet_watch")
    keystone.register_opts(made)
    made.set_override("auth_url", "http://127.0.0.1:1/v3", group=keystone.GROUP)
    key = tmp_path / "key"
    key.write_text(SECRET)
    made.set_override("jwt_key_files", [str(key)], group="outlet_watch")
    made.set_override("jwt_algorithms", ["HS256"], group="outlet_watch")
    made.set_override("jwt_issuer", "us", group="outlet_watch")
    return made


@pytest.fixture
def token(strategy: str) -> Iterator[MakeToken]:
    """Makes tokens of a user with a role in a project. keystonemiddleware knows them without a Keystone."""
    with AuthTokenFixture() as fixture:

        def make(role: str, project_id: str = "p") -> str:
            if strategy == "jwt":
                claims = {
                    "sub": "u1",
                    "project_id": project_id,
                    "roles": [role],
                    "exp": time.time() + 3600,
                    "iss": "us",
                }
                return jwt.encode(claims, SECRET, "HS256")
            made = uuid.uuid4().hex
            fixture.add_token_data(token_id=made, user_id="u1", project_id=project_id, role_list=[role])
            return made

        yield make


@on_one_database
@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER ", ""])
def test_a_first_request_and_a_refresh_have_their_token_with_and_without_the_scheme(
    conf: cfg.ConfigOpts, store: Store, token: MakeToken, scheme: str
) -> None:
    authenticator: Any = make_authenticator(conf, builtin_kinds())
    instances = Instances(store)
    with serving(store, authenticator) as site, channel_to(site.port) as channel:
        topic = site.topics.topics[SELF_LINK]
        site.topics.topics[SELF_LINK] = msgspec.structs.replace(topic, project_id="another")
        # The metadata of the call has no token, so that the requests alone decide.
        client = WatchClient(channel, dialect=STOCK).subscribe(scheme + token("reader", "another"))
        wait_until(lambda: client.status is not None or site.worker.stats.subscribed == 1, what="the subscription")
        assert client.status is None, client.details
        client.refresh(scheme + token("admin"))
        wait_until(lambda: instances.write([1]) and (client.events or client.status is not None), what="an event")
        assert client.status is None, client.details
        client.close()


@on_one_database
@pytest.mark.parametrize("text", ["Bearer nonsense", "Bearer ", "Basic dTE6cA=="])
def test_a_scheme_makes_no_bad_token_a_good_one(
    conf: cfg.ConfigOpts, store: Store, token: MakeToken, text: str
) -> None:
    authenticator: Any = make_authenticator(conf, builtin_kinds())
    with serving(store, authenticator) as site, channel_to(site.port) as channel:
        first = WatchClient(channel, dialect=STOCK).subscribe(text)
        assert first.wait_for_status().name == "UNAUTHENTICATED"
        refreshed = WatchClient(channel, dialect=STOCK).subscribe(f"Bearer {token('admin')}")
        joined(site, 1)
        refreshed.refresh(text)
        assert refreshed.wait_for_status().name == "UNAUTHENTICATED"
