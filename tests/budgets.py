# SPDX-License-Identifier: Apache-2.0
"""Counts the calls of watcher_sync functions that one thing costs, and the modules that they are in.

``python -m tests.budgets`` prints the walks as ``doc/source/contributor/architecture.rst`` shows them.

The engine's walks are those of :mod:`tests.tracing`. The others run in the calling thread, without their sockets:

* a list request through the WSGI application;
* the steps of a webhook worker, from the journal row to the recorded answer;
* one row that the hub encodes and queues for a stream.
"""

from __future__ import annotations

import collections
import gc
import pathlib
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from falcon.testing import TestClient

from tests.tracing import STAGES, Call, Profiler, Site, Walk, push_each, running
from tests.unit.extensions.watch import test_hub as hubs
from tests.unit.extensions.webhooks.driver import Driver
from watcher_sync.assembly.api import make_application
from watcher_sync.extensions.watch.model.resources import Reader


class _Counter(Profiler):
    """Records the calls in a thread, whatever their stage."""

    def _enter(self, module: str, name: str, *, is_call: bool) -> None:
        if is_call and not module.startswith("testing."):
            self.walk.calls.append(Call("", module, name))

    def _leave(self, module: str, name: str, frame: FrameType) -> None:
        """A return costs nothing."""


@contextmanager
def counted() -> Iterator[Walk]:
    """The walk of what the calling thread does in the block."""
    counter, before = _Counter(), sys.getprofile()
    gc.disable()  # a finalizer would be counted where it happens to run
    counter.install()
    try:
        yield counter.walk
    finally:
        sys.setprofile(before)
        gc.enable()


def walks(folder: pathlib.Path) -> dict[str, Walk]:
    """What each thing costs."""
    with running(folder) as site:
        found = push_each(site)
        found["GET /v1/instances"] = _list(site)
    return {**found, "webhook delivery": _webhook(), "gRPC watch event": _watch()}


def lines_of(name: str, walk: Walk) -> list[str]:
    """A walk as the page shows it: the modules that each stage enters first, in their order."""
    lines = [f"{name}:"]
    seen: set[str] = set()
    for stage in STAGES if any(call.stage for call in walk.calls) else ("",):
        found = [module for module in walk.modules(stage) if module not in seen]
        seen.update(found)
        lead = f"  {stage:<12}" if stage else "  "
        lines += textwrap.wrap(", ".join(found), 118, initial_indent=lead, subsequent_indent=" " * len(lead))
    return lines


def described(walk: Walk, most: int = 15) -> str:
    """The functions that a walk calls most."""
    counts = collections.Counter(f"{call.module}.{call.function}" for call in walk.calls)
    return ", ".join(f"{name} x {count}" for name, count in counts.most_common(most))


def _list(site: Site) -> Walk:
    site.conf.set_override("auth_strategy", "noauth", group="api")
    application = make_application(site.conf, site.store)
    # Falcon's client inspects the signature of the application, and a middleware may have none.
    client = TestClient(lambda environ, start_response: application(environ, start_response))
    for _ in range(2):  # the first request fills what the process remembers
        with counted() as walk:
            answer = client.simulate_get("/v1/instances", host="localhost")
        assert len(answer.json["instances"]) == 1
    return walk


def _webhook() -> Walk:
    driver = Driver()
    driver.log.write("instance", "i", state="building")
    receiver = driver.subscribe()
    driver.step()
    for state in ("active", "stopped"):  # the first delivery fills what the process remembers
        driver.log.write("instance", "i", state=state)
        with counted() as walk:
            driver.step()
    assert len(receiver.bodies) == 2
    return walk


def _watch() -> Walk:
    found: list[Walk] = []

    async def one_event(site: hubs.Site) -> None:
        stream = site.join(Reader(), hubs.topic())
        for seq in (1, 2):  # the first event fills what the hub remembers
            with counted() as walk:
                await site.write(hubs.row(seq))
                await stream.take()
            found.append(walk)

    hubs.run(one_event)
    return found[-1]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for title, found in walks(pathlib.Path(made)).items():
            print("\n".join(lines_of(title, found)))
