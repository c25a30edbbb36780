# SPDX-License-Identifier: Apache-2.0
"""A NATS server with exactly the example's file, and the users of its accounts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import StreamConfig

from tests.functional.sources.jetstream import Dcm, dcm_of
from tests.services.servers import Server, private_nats
from tests.waiting import PATIENCE_SECONDS, wait_until
from watcher_sync.testing.dcm import publisher

FILE = Path(__file__).parents[3] / "etc" / "watcher-sync" / "nats-server-dcm.conf"
STREAM = "dcm-providers"
USERS = ("dcm", "watcher_sync", "kubevirt", "acm")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    """A server with exactly the example's file."""
    for user in USERS:
        monkeypatch.setenv(f"{user.upper()}_PASSWORD", f"pw-{user}")
    monkeypatch.setenv("NATS_STORE_DIR", str(tmp_path / "jetstream"))
    with private_nats(FILE) as server:
        yield server


@pytest.fixture
def dcm(server: Server) -> Iterator[Dcm]:
    """The control plane, with the stream made."""
    with dcm_of(server.url, user="dcm", password="pw-dcm") as client:
        client.do(client.js.add_stream(StreamConfig(name=STREAM, subjects=["dcm.providers.*.*"])))
        yield client


class Login:
    """A user of the server, and what the server refused it."""

    def __init__(self, dcm: Dcm, url: str, user: str) -> None:
        self._dcm = dcm
        self.refused: list[str] = []
        self.client: Client = dcm.do(nats.connect(url, user=user, password=f"pw-{user}", error_cb=self._on_error))
        self.js = self.client.jetstream(timeout=PATIENCE_SECONDS)

    async def _on_error(self, error: Exception) -> None:
        self.refused.append(str(error))

    def publish(self, document: publisher.Document, subject: str) -> None:
        """Publish as providers do, and wait until it is stored."""
        self._dcm.do(self.js.publish(subject, publisher.body_of(document)))

    def try_publish(self, subject: str) -> str:
        """Publish without an acknowledgement; what the server says to it."""
        before = len(self.refused)
        self._dcm.do(self.client.publish(subject, b"{}"))
        self._dcm.do(self.client.flush(int(PATIENCE_SECONDS)))
        wait_until(lambda: len(self.refused) > before, what="a refusal")
        return self.refused[-1]


@pytest.fixture
def login(dcm: Dcm, server: Server) -> Iterator[Callable[[str], Login]]:
    made: list[Login] = []

    def make(user: str) -> Login:
        made.append(Login(dcm, server.url, user))
        return made[-1]

    yield make
    for one in made:
        dcm.do(one.client.close())


def source(url: str) -> dict[str, str]:
    """The options of a source that reads what the providers publish."""
    options = {
        "driver": "nats_jetstream", "servers": url, "user": "watcher_sync", "password": "pw-watcher_sync",
        "stream": STREAM, "subject": "dcm.providers.*.*",
    }  # fmt: skip
    return {f"source_dcm.{name}": value for name, value in options.items()}
