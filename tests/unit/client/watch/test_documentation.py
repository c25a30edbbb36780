# SPDX-License-Identifier: Apache-2.0
"""The example of the documentation works as it is written."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from tests.waiting import wait_until
from watcher_sync.client.watch import FileSequence
from watcher_sync.testing.watch.service import FakeWatchService
from watcher_sync.testing.watch.topic import FakeTopic

PAGE = Path(__file__).parents[4] / "doc" / "source" / "user" / "watch-client.rst"


@pytest.mark.slow
def test_the_example_of_the_page_delivers_events_and_stores_the_watermark(tmp_path, capsys):
    found = re.search(r"\.\. code-block:: python\n\n((?:    .*\n|\n)+)", PAGE.read_text(encoding="utf-8"))
    assert found
    names: dict[str, object] = {}
    exec(compile(textwrap.dedent(found[1]), str(PAGE), "exec"), names)
    topic, path = FakeTopic(str(names["TOPIC"])), tmp_path / "sequence.json"
    topic.publish(3)
    FileSequence(path).set(topic.self_link, 1)
    with FakeWatchService(topic=topic) as service:
        watch = names["watch"]
        assert callable(watch)
        with watch("127.0.0.1", service.port, service.url, lambda: "token", path, None) as manager:
            wait_until(lambda: FileSequence(path).get(topic.self_link) == 3)
            wait_until(manager.status)

    assert capsys.readouterr().out.splitlines() == [
        "2 updated Instance instance-2 active",
        "3 updated Instance instance-3 active",
    ]
