# SPDX-License-Identifier: Apache-2.0
"""The client of watch streams against the API and the outlet, as executables over one database."""

from __future__ import annotations

import json
import re
import textwrap
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faulty_proxy import FaultyProxy
from tests.functional.client.conftest import Site, run
from tests.functional.client.outlet import Outlet
from tests.waiting import deadline, wait_until
from watcher_sync.client import connect
from watcher_sync.client.watch import MemorySequence, TopicNotFound, WatchManager

PAGE = Path(__file__).parents[3] / "doc" / "source" / "user" / "watch-client.rst"
TOPICS = "/management/v1/watchtopics"
LINK = f"{TOPICS}/instances"
FILTER = {"group": "compute", "kind": "Instance", "name": "*", "type": ["created", "updated", "deleted"]}


@pytest.fixture(scope="module")
def topic(site: Site) -> None:
    make_topic(site)


def make_topic(site: Site) -> None:
    """Make the topic of instances."""
    body = {"group": "management", "apiVersion": "v1", "kind": "WatchTopic", "name": "instances"}
    document = {**body, "title": "instances", "spec": {"description": "", "filters": [FILTER]}}
    post = urllib.request.Request(
        f"{site.url}{TOPICS}", json.dumps(document).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(post, timeout=deadline(60)) as answer:
        assert answer.status == 201


@pytest.fixture
def outlet(site: Site, topic: None) -> Iterator[Outlet]:
    made = Outlet(site)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def head(site: Site) -> int:
    found = catch_up(site, "pageSize=1&sort=sequenceID,DESC")
    return int(found[0]["metadata"]["sequenceID"])


def catch_up(site: Site, query: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{site.url}/events{LINK}?{query}", timeout=deadline(60)) as answer:
        found: list[dict[str, Any]] = json.load(answer)
    return found


def newer(site: Site, after: int) -> list[int]:
    """The sequences of the topic after one, by REST."""
    found: list[int] = []
    while page := catch_up(site, f"pageSize=100&query=sequenceID%3E{after}&sort=sequenceID,ASC"):
        found += [each["metadata"]["sequenceID"] for each in page]
        after = found[-1]
    return found


def watching(site: Site, after: int, port: int, got: list[Any], errors: list[Any], **more: Any) -> WatchManager:
    manager = connect(site.url).watch_manager(
        address=f"127.0.0.1:{port}", sequence=MemorySequence({LINK: after}), backoff=(0.05, 0.2), **more
    )
    manager.register_watch(LINK, got.append, errors.append)
    return manager


@pytest.mark.parametrize("resume_only", [False, pytest.param(True, marks=pytest.mark.rare)])
def test_every_event_comes_once_over_cuts_and_a_restart_of_the_outlet(
    site: Site, outlet: Outlet, resume_only: bool
) -> None:
    begin, got, errors = head(site), [], []
    with (
        FaultyProxy(outlet.port) as proxy,
        watching(site, begin, proxy.port, got, errors, resume_only=resume_only) as manager,
    ):
        wait_until(manager.status, what="the stream")
        for number in range(20):
            site.commit(site.more(2))
            if number % 4 == 0:
                wait_until(lambda: proxy.connections, what="a connection to cut")
                proxy.reset()
            if number == 10:
                outlet.stop()
                outlet.start()
        expected = newer(site, begin)
        assert len(expected) > 10
        wait_until(lambda: errors or len(got) >= len(expected), 60, "the events")
        wait_until(manager.status, what="the stream")
        assert proxy.attempts >= 6

    assert not errors
    assert [event.sequence for event in got] == expected
    assert {(event.group, event.kind) for event in got} == {("compute", "Instance")}


def test_an_event_of_the_stream_equals_its_twin_by_rest(site: Site, outlet: Outlet) -> None:
    begin, streamed, harvested, errors = head(site), [], [], []
    site.commit(site.more(8))
    expected = newer(site, begin)
    with watching(site, begin, outlet.port, streamed, errors, resume_only=True):
        wait_until(lambda: errors or len(streamed) >= len(expected), 60, "the events")
    outlet.stop()
    with watching(site, begin, outlet.port, harvested, errors):
        # The outlet is down, and the catch-up needs the API alone.
        wait_until(lambda: errors or len(harvested) >= len(expected), 60, "the catch-up")

    assert not errors
    values = [[{**event.to_dict(), "previous": None} for event in each] for each in (streamed, harvested)]
    assert values[0] == values[1]


class Enough(Exception):
    """Ends the loop of the example."""


def test_the_example_of_a_first_start_reads_the_lists_and_then_every_change(
    site: Site, outlet: Outlet, tmp_path: Path
) -> None:
    _, example = re.findall(r"\.\. code-block:: python\n\n((?:    .*\n|\n)+)", PAGE.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    exec(compile(textwrap.dedent(example), str(PAGE), "exec"), names)
    listed: list[str] = []
    got: list[int] = []

    def follow(begin: int, count: int) -> None:
        def on_event(event: Any) -> None:
            got.append(event.sequence)
            if len(got) >= count:
                raise Enough

        address = f"127.0.0.1:{outlet.port}"
        with pytest.raises(Enough):
            names["follow"](connect(site.url), address, tmp_path / "sequence.json", listed.append, on_event)

    begin = head(site)
    waiting = threading.Thread(target=follow, args=(begin, 3), daemon=True)
    waiting.start()
    wait_until(lambda: (tmp_path / "sequence.json").exists(), 60, "the first start")
    site.commit(site.more(12))
    waiting.join(deadline(60))
    assert listed
    assert got == newer(site, begin)[:3]

    # The next start reads no list, and has the event again that the program did not finish.
    count, last = len(listed), got[-1]
    got.clear()
    follow(begin, 1)
    assert (len(listed), got) == (count, [last])


def test_a_topic_that_does_not_exist_is_an_error(site: Site, outlet: Outlet) -> None:
    errors: list[Any] = []
    with connect(site.url).watch_manager(address=f"127.0.0.1:{outlet.port}", backoff=(0.05, 0.2)) as manager:
        manager.register_watch(f"{TOPICS}/none", lambda event: None, errors.append)
        wait_until(lambda: errors, what="the error")

    assert isinstance(errors[0], TopicNotFound)


def test_events_tail_prints_a_topic(site: Site, outlet: Outlet) -> None:
    begin = 3
    expected = newer(site, begin)[:5]
    stream = ("--stream-address", f"127.0.0.1:{outlet.port}")
    done = run(
        "watcher-sync", "--endpoint", site.url, "event", "tail", "--topic", "instances", *stream,
        "--since", str(begin), "--limit", "5", "-f", "json",
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["sequence"] for line in done.stdout.splitlines()] == expected
