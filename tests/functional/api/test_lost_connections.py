# SPDX-License-Identifier: Apache-2.0
"""An API worker whose connection to the database is lost at each message of a request."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from tests.faulty_proxy import FaultyProxy
from tests.functional.storage.conftest import opened
from tests.functional.storage.sessions import end_sessions
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

_WRITES = (
    ("PUT", "/v1/service_type_instances/i1", {"service_type": "vm", "instance_name": "i1"}),
    ("DELETE", "/v1/service_type_instances/i1", None),
)


class _Site:
    """A store behind a proxy, and the address of its database without it."""

    def __init__(self, url: str, proxy: FaultyProxy) -> None:
        self.url, self.proxy = url, proxy
        far = sa.make_url(url).set(port=proxy.port).render_as_string(hide_password=False)
        self.store: Store = opened(far, builtin_kinds())


@pytest.fixture(params=["mariadb", pytest.param("postgresql", marks=pytest.mark.rare)])
def site(request: pytest.FixtureRequest) -> Iterator[_Site]:
    url = request.getfixturevalue(f"migrated_{request.param}_url")
    with FaultyProxy(sa.make_url(url).port or 0) as proxy:
        site = _Site(url, proxy)
        yield site
        site.store.close()
        site.store.database.dispose()


@pytest.mark.parametrize("how", ["reset", pytest.param("ended by the server", marks=pytest.mark.rare)])
def test_a_request_whose_connection_is_lost_at_any_message_is_answered_or_503(
    site: _Site, serve: Callable[..., httpx.Client], tmp_path: Path, how: str
) -> None:
    proxy = site.proxy
    lose = proxy.reset if how == "reset" else lambda: end_sessions(site.url)
    client = serve(site.store, workers=1, threads=4, write_rate=0)
    paths = [p for p, o in client.get("/openapi.json").json()["paths"].items() if "get" in o and "{" not in p]
    wrong = {}
    for method, path, body in [*(("GET", path, None) for path in paths), *_WRITES]:
        for number in itertools.count(1):
            proxy.at_message(number, lose)
            with suppress(httpx.RemoteProtocolError):  # an answer of the compute model has begun, and breaks off
                answer = client.request(method, path, json=body)
                if answer.status_code >= 500 and not (answer.status_code == 503 and "Retry-After" in answer.headers):
                    wrong[method, path, number] = answer.status_code
            if proxy.messages_left > 0:
                break
        proxy.at_message(0, bool)
    assert not wrong
    assert "Traceback" not in (tmp_path / "gunicorn.log").read_text()
