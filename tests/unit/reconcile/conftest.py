# SPDX-License-Identifier: Apache-2.0
"""A reconciler whose runs end as the test says, and a clock that the test puts forward."""

from __future__ import annotations

import datetime
import logging
import threading
import time

import pytest
from oslo_config import cfg
from oslo_service import backend

from tests.simulated import NOON
from tests.waiting import deadline
from watcher_sync.conf import opts
from watcher_sync.reconcile.base import Reconciler, Report
from watcher_sync.reconcile.scheduling import Reconciliation

# As in our executables, before anything of oslo.messaging is imported.
backend.init_backend(backend.BackendType.THREADING)


def report(scope, **values):
    return Report(**{"scope": scope, "dry_run": False, "complete": True, **values})


class StandIn(Reconciler):
    """Compares nothing. A scope's runs end as ``ends`` says: a report, an exception, or what a function gives."""

    name = "standin"

    def __init__(self, *scopes):
        super().__init__(None, None)
        self.named = list(scopes)
        self.ends = {}
        self.begun = []
        """(scope, time.monotonic()) of each run."""
        self.deadlines = []

    def scopes(self):
        if isinstance(self.named, BaseException):
            raise self.named
        return self.named

    def run(self, scope, *, dry_run=False, allow_deletes=False, deadline):
        self.begun.append((scope, time.monotonic()))
        self.deadlines.append(deadline)
        end = self.ends.get(scope, report(scope))
        if callable(end):
            end = end()
        if isinstance(end, BaseException):
            raise end
        return end

    def times(self, scope):
        return sum(one == scope for one, _ in self.begun)


class Hang:
    """A live system that does not answer until the test lets it."""

    def __init__(self, answer=None):
        self.answer = answer
        self.asked = threading.Event()
        self._let = threading.Event()

    def __call__(self):
        self.asked.set()
        assert self._let.wait(deadline(60))
        return self.answer

    def let_go(self):
        self._let.set()


class Clock:
    """Seconds, and the time of day that goes with them."""

    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds

    def now(self):
        return NOON + datetime.timedelta(seconds=self.seconds - 1000)


@pytest.fixture
def conf():
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    return conf


@pytest.fixture
def clock():
    return Clock()


class Stepped:
    """A reconciliation that checks its scopes when the test calls it; each check waits for the runs that it began."""

    def __init__(self, conf, clock, *reconcilers, share=lambda: 0.0, **how):
        self.reconciler = reconcilers[0]
        self.reconciliation = Reconciliation(conf, reconcilers, clock=clock, now=clock.now, share=share, **how)
        self.reconciliation._started = True
        self._clock = clock

    def begin_due(self, *, wait=True):
        self.reconciliation.begin_due_runs()
        if wait:
            self.join_runs()

    def join_runs(self):
        for scope in list(self.reconciliation._scopes.values()):
            thread = scope.thread
            if thread is not None:
                thread.join(deadline(60))
                assert not thread.is_alive()

    def after(self, seconds, **how):
        self._clock.seconds += seconds
        self.begin_due(**how)

    def state(self, scope="edge"):
        return next(s for s in self.reconciliation.states() if s.scope == scope)

    def runs(self, scope="edge"):
        return {outcome.value: count for outcome, count in self.state(scope).runs.items() if count}


@pytest.fixture
def stepped(conf, clock):
    return lambda *reconcilers, **how: Stepped(conf, clock, *reconcilers, **how)


@pytest.fixture
def said(caplog):
    """The log's lines so far, without level and place."""
    caplog.set_level(logging.INFO, "watcher_sync")
    return lambda: [record.getMessage() for record in caplog.records]
