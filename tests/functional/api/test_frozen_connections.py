# SPDX-License-Identifier: Apache-2.0
"""An API worker whose connections to the database stop answering without closing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import httpx
import pytest
import sqlalchemy as sa

from tests.faulty_proxy import FaultyProxy
from tests.functional.storage.conftest import opened
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

_DEFAULT_SECONDS = 10.0
_CONNECT_SECONDS = 4
_WITHIN_A_REQUEST_BYTES = 400
"""So many bytes from the client end within its first query, after the check of a connection from the pool."""

PATH = "/v1/instances"

Site = tuple[Store, FaultyProxy]


@pytest.fixture(params=["postgresql", pytest.param("mariadb", marks=pytest.mark.rare)])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A store behind a proxy."""
    url = sa.make_url(request.getfixturevalue(f"migrated_{request.param}_url"))
    assert url.port is not None
    with FaultyProxy(url.port) as proxy:
        # A server that pauses for some seconds is not one that has gone.
        url = url.set(port=proxy.port).update_query_dict({"connect_timeout": str(_CONNECT_SECONDS)})
        store = opened(url.render_as_string(hide_password=False), builtin_kinds())
        yield store, proxy
        store.close()
        store.database.dispose()


def timed(client: httpx.Client) -> tuple[int, float]:
    """The status of a request, and its seconds."""
    began = time.monotonic()
    status = client.get(PATH).status_code
    return status, time.monotonic() - began


@pytest.mark.parametrize("seconds", [4.0, pytest.param(_DEFAULT_SECONDS, marks=pytest.mark.rare)])
def test_a_request_on_a_frozen_connection_ends_in_time_and_the_next_one_works_at_once(
    site: Site, serve: Callable[..., httpx.Client], figure: Callable[[str], None], seconds: float
) -> None:
    store, proxy = site
    limit = {} if seconds == _DEFAULT_SECONDS else {"database__read_timeout": seconds}
    # Nothing else ends what the proxy froze: without the limits a request below takes longer than the client waits.
    client = serve(store, workers=1, threads=4, **limit)
    assert timed(client)[0] == 200

    # While the connection rests: the pool notices, and the request gets a new one.
    proxy.silence()
    status, resting = timed(client)
    assert status == 200
    assert timed(client)[0] == 200

    # Within the request.
    proxy.silence_after(_WITHIN_A_REQUEST_BYTES)
    status, within = timed(client)
    assert status == 503
    assert seconds <= within
    status, again = timed(client)
    assert status == 200

    # No new connection answers either.
    proxy.vanish()
    status, vanished = timed(client)
    assert status == 503
    proxy.restore()
    status, restored = timed(client)
    assert status == 200
    figure(
        f"{proxy.attempts} connections; resting {resting:.1f} s, within a request {within:.1f} s, "
        f"the next {again:.2f} s, all vanished {vanished:.1f} s, the next {restored:.2f} s"
    )
