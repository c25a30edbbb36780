# SPDX-License-Identifier: Apache-2.0
"""The memory of an API worker while a member sends the worst reads at once, under the documented gunicorn command."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import jwt
import psutil
import pytest

from tests.functional.security.serving import documented_api
from tests.functional.storage.conftest import opened
from tests.simulated import telling, told
from tests.waiting import deadline
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.database.pages import MAX_PAGE_BYTES
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.wire.limits import MAX_DOCUMENT_BYTES

AT_ONCE = 12
REQUEST_BYTES = 4 * MAX_PAGE_BYTES
"""What one request may need, as the documentation says."""
KEY = "0123456789abcdef0123456789abcdef"
COUNT = 20
"""More documents than a page has."""

READS = {
    "instances": "/v1/vnf_instances?limit=1000",
    "instances-whole": "/v1/vnf_instances?limit=1000&all_fields",
    "instances-filtered": "/v1/vnf_instances?limit=1000&all_fields&filter=(eq,vnfdId,d)",
    "instances-none": "/v1/vnf_instances?limit=1000&filter=(eq,vnfdId,none)",
    "instances-of-sol003": "/vnflcm/v2/vnf_instances?all_fields",
    "instances-of-the-past": "/v1/vnf_instances?limit=1000&all_fields&as_of={head}",
    "entities": "/v1/service_type_instances?limit=1000",
    "history": "/v1/service_type_instances/s0/history?limit=1000",
    "history-short": "/v1/service_type_instances/s0/history?limit=1000&sort=-seq&values=short",
    "changes": "/v1/events?limit=1000&since=0",
    "last-changes": "/v1/events?limit=1000",
    "changes-of-none": "/v1/events?limit=1000&since=0&actor=none",
    "differences": "/v1/diff?limit=1000&from=0",
    "differences-of-updates": "/v1/diff?limit=1000&from={created}",
}


def costly(number: int) -> list[Any]:
    """A list of the largest size that a field may have, whose decoded form takes twenty times as much."""
    return [[]] * ((MAX_DOCUMENT_BYTES - 1000) // 3 - number)


def fill(store: Store) -> dict[str, int]:
    """Instances with the largest documents, and a history of them; seqs by name."""
    cycle = CommitCycle(store, store.load(), telling())
    numbers = iter(range(1000))

    def commit(*changes: Upsert) -> None:
        for each in changes:
            cycle.run(Batch(events=[told(next(numbers), each)]))

    for n in range(COUNT):
        spec = {"service_type": "vm", "project_id": "p", "spec": {"a": costly(n)}}
        registration = {"project_id": "p", "cluster": "c", "namespace": "n", "vnfd_id": "d", "vdus": {}, "aspects": {}}
        registration["ext_cp_info"] = [{"a": costly(n)}]
        commit(
            Upsert("service_type_instance", f"s{n}", "001", {"spec": spec}),
            Upsert("vnf_instance", f"v{n}", "001", {"registration": registration}),
        )
    created = store.load().generation
    for n in range(COUNT):
        commit(Upsert("service_type_instance", "s0", f"1{n:02}", {"spec": {"spec": {"a": costly(n + 1)}}}))
    return {"created": created, "head": store.load().generation}


class Worker:
    """The only worker of an API, and a member's requests to it."""

    def __init__(self, client: httpx.Client, process: psutil.Process) -> None:
        self._client = client
        self._process = process

    def ask(self, path: str) -> None:
        """Receives an answer, and stores nothing of it. Of requests for the past, some wait and are refused."""
        with self._client.stream("GET", path) as answer:
            is_busy = "as_of=" in path and answer.status_code == 503
            assert is_busy or answer.status_code == 200, answer.read()[:500]
            for _ in answer.iter_raw():
                pass

    def memory(self) -> int:
        """Its bytes now."""
        size: int = self._process.memory_info().rss
        return size

    def most_memory(self, path: str) -> int:
        """The most bytes that it has while some of these requests run at once."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")  # the peak begins again
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self.ask, [path] * AT_ONCE))
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
        return int(peak) * 1024


@pytest.fixture
def seqs(migrated_postgresql_url: str) -> Iterator[dict[str, int]]:
    """A database with the largest documents of a member."""
    store = opened(migrated_postgresql_url, builtin_kinds())
    try:
        yield fill(store)
    finally:
        store.close()
        store.database.dispose()


@pytest.fixture
def worker(migrated_postgresql_url: str, seqs: dict[str, int], tmp_path: Path) -> Iterator[Worker]:
    """An API with one worker, which takes tokens of members."""
    (tmp_path / "key").write_text(KEY)
    config = tmp_path / "watcher-sync.conf"
    config.write_text(
        f"[database]\nconnection = {migrated_postgresql_url}\n[api]\nauth_strategy = noauth\n"
        f"[outlet_watch]\nauth_strategy = jwt\njwt_key_files = {tmp_path / 'key'}\n"
        "jwt_algorithms = HS256\njwt_issuer = us\n"
    )
    claims = {"sub": "anna", "project_id": "p", "roles": ["member"], "iss": "us", "exp": time.time() + 36_000}
    with documented_api(config, "--workers", "1", "--pid", str(tmp_path / "pid")) as client:
        client.headers["Authorization"] = f"Bearer {jwt.encode(claims, KEY, 'HS256')}"
        client.timeout = httpx.Timeout(deadline(300))
        (process,) = psutil.Process(int((tmp_path / "pid").read_text())).children()
        yield Worker(client, process)


@pytest.mark.rare
@pytest.mark.timeout(900)
def test_the_worst_reads_at_once_need_no_more_memory_than_documented(worker: Worker, seqs: dict[str, int]) -> None:
    worker.ask("/v1/vnf_instances?limit=1&fields=id")
    idle = worker.memory()
    limit = 1.5 * idle + AT_ONCE * REQUEST_BYTES
    found = {name: worker.most_memory(path.format(**seqs)) for name, path in READS.items()}
    beyond = {name: peak // 2**20 for name, peak in found.items() if peak > limit}
    assert not beyond, f"MiB: {json.dumps(beyond)}; {idle // 2**20} when idle, {limit / 2**20:.0f} permitted"
