# SPDX-License-Identifier: Apache-2.0
"""A standby whose connection to the database is lost while it takes the lead over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.faulty_proxy import FaultyProxy
from tests.simulated import NOON, telling
from tests.unit.engine.conftest import Spoken
from tests.waiting import deadline, wait_until
from watcher_sync.assembly.engine import make_lease
from watcher_sync.assembly.store import open_store
from watcher_sync.conf import opts
from watcher_sync.engine.engine import Engine
from watcher_sync.events import Event
from watcher_sync.periodic import run_in_background
from watcher_sync.testing.kinds import builtin_kinds

_AT_ONCE = 6
_NEVER = 10_000
"""A message that a standby does not send before its first commit."""


class _Noting(Spoken):
    """A source that notes how many messages were missing when its event was acknowledged."""

    def __init__(self, proxy: FaultyProxy) -> None:
        super().__init__()
        self._proxy = proxy
        self.left = 0

    def ack(self, events: Sequence[Event]) -> None:
        self.left = self._proxy.messages_left
        super().ack(events)


def _conf(url: str, group: str, folder: Path) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("state_path", str(folder))
    conf.set_override("connection", url, "database")
    conf.set_override("group", group, "engine")
    return conf


def _left(url: str, folder: Path, number: int) -> int:
    """Have a standby lose its connections with a message after it has the lease, and lead and commit nevertheless.

    :param number: of the message.
    :returns: how many messages were missing when it had committed; below 1: none.
    """
    with FaultyProxy(sa.make_url(url).port or 0) as proxy:
        far = sa.make_url(url).set(port=proxy.port).render_as_string(hide_password=False)
        conf = _conf(far, f"group{number}", folder)
        store = open_store(conf, builtin_kinds(), checked=False)
        lease, source = make_lease(conf, store), _Noting(proxy)
        try_take = lease.try_take

        def take() -> bool:
            if is_taken := try_take():
                lease.try_take = try_take
                proxy.at_message(number, proxy.reset)
            return is_taken

        lease.try_take = take
        engine = Engine(conf, store, telling(), lease, {"spoken": lambda: source})
        running = run_in_background(engine.run, f"engine-{number}")
        try:
            source.say(Event(id=f"e{number}", type="instance.seen", source="spoken", time=NOON))
            wait_until(lambda: source.acked or running.done(), what=f"the commit after a loss at message {number}")
            assert not running.done(), running.exception()
            return source.left
        finally:
            engine.stop()
            engine.join(deadline(60))
            store.dispose()
            lease.close()


@pytest.mark.parametrize("service", ["postgresql", pytest.param("mariadb", marks=pytest.mark.rare)])
def test_a_standby_leads_and_commits_whichever_message_of_its_takeover_loses_the_connection(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    service: str,
    caplog: pytest.LogCaptureFixture,
    figure: Callable[[str], None],
) -> None:
    url = request.getfixturevalue(f"migrated_{service}_url")
    sent = _NEVER - _left(url, tmp_path, _NEVER)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        left = list(pool.map(lambda number: _left(url, tmp_path, number), range(1, sent + 1)))
    assert left[0] < 1
    assert not [r.getMessage() for r in caplog.records if r.exc_info]
    figure(f"{sent} messages from the lease to the commit, {sum(n < 1 for n in left)} connections lost")
