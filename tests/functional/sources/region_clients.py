# SPDX-License-Identifier: Apache-2.0
"""Clients of a region whose API is killed: each knows what it was answered, and repeats nothing blindly."""

from __future__ import annotations

import collections
import itertools
import threading
from typing import Any, Self

import httpx

from tests.functional.engine.driving import Installation
from tests.waiting import deadline

_UNKNOWN = 0
_HOLDER = "manager-"


class RowWriter:
    """Writes some rows again and again, each value once, and notes which of them were answered."""

    def __init__(self, url: str, name: str, count: int = 5) -> None:
        self.answered: dict[str, int] = {}
        """Row -> the last value that was answered with success."""
        self.unknown: dict[str, list[int]] = collections.defaultdict(list)
        """Row -> the values since, whose requests have no answer."""
        self.statuses: collections.Counter[int] = collections.Counter()
        self._url = url
        self._rows = [f"{name}-{number}" for number in range(count)]

    def run(self, ended: threading.Event) -> None:
        """Write until the end."""
        with httpx.Client(base_url=self._url, timeout=deadline(60)) as client:
            for value in itertools.count(1):
                if ended.wait(0.02):
                    return
                row = self._rows[value % len(self._rows)]
                status = self._put(client, row, value)
                self.statuses[status] += 1
                if status in (200, 201):
                    self.answered[row] = value
                    self.unknown[row].clear()
                elif status == _UNKNOWN:
                    self.unknown[row].append(value)

    def wrong(self, site: Installation) -> list[str]:
        """The rows that are neither what was answered last nor, as a whole, what came after it without an answer."""
        found: dict[str, Any] = {row.id: row for row in site.store.load().snapshot().all("service_type_instance")}
        wrong = []
        for name in self._rows:
            row = found.get(name)
            values = {self.answered.get(name), *self.unknown[name]}
            have = None if row is None else int(row.instance_name)
            if have not in values or (row is not None and row.spec != _spec(have)):
                wrong.append(f"{name} is {row}, not one of {values}")
        return wrong

    def _put(self, client: httpx.Client, row: str, value: int) -> int:
        body = {"service_type": "vm", "instance_name": str(value), "spec": _spec(value)}
        try:
            return client.put(f"/v1/service_type_instances/{row}", json=body).status_code
        except httpx.TransportError:
            return _UNKNOWN


def _spec(value: int | None) -> dict[str, Any]:
    return {"value": value, "text": f"{value} " * 500}


class Manager:
    """Begins and ends operations of one instance. It is the only one, so no other one holds the lease."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.answers: collections.Counter[tuple[str, int]] = collections.Counter()
        self.waits = 0
        """Operations that had to wait for the end of a lease whose request was killed."""
        self.tokens: list[int] = []
        self.bad: list[str] = []
        self._url = url
        self._number = 0

    def run(self, ended: threading.Event) -> None:
        """Operate until the end."""
        with httpx.Client(base_url=self._url, timeout=deadline(60)) as client:
            while self._ask(client, "PUT", f"/v1/vnf_instances/{self.name}", json=self._body()) not in (200, 201):
                if ended.wait(0.1):
                    return
            while not ended.wait(0.02):
                self._operate(client, ended)

    def _operate(self, client: httpx.Client, ended: threading.Event) -> None:
        path = f"/v1/vnf_instances/{self.name}/operations"
        self._number += 1
        asked = {"operation": "SCALE", "holder": f"{_HOLDER}{self._number}"}
        answer: dict[str, Any] = {}
        is_unknown = False
        while (status := self._ask(client, "POST", path, answer, json=asked)) != 201:
            if status == 409 and not is_unknown and answer["holder"].startswith(_HOLDER):
                self.bad.append(f"{self.name}: taken by {answer}, and no request was killed")
            is_unknown = is_unknown or status == _UNKNOWN
            self.waits += status == 409
            if ended.wait(0.05):
                return
        self.tokens.append(answer["token"])
        secret = {"Operation-Secret": answer["secret"]}
        operation = f"{path}/{answer['id']}"
        self._ask(client, "PUT", operation, headers=secret)
        while self._ask(client, "DELETE", operation, headers=secret) == _UNKNOWN:
            pass

    def _body(self) -> dict[str, Any]:
        vdus = {"VDU1": {"workload": {"kind": "Deployment", "name": self.name}, "initial": 1, "min": 1, "max": 2}}
        return {
            "name": self.name, "cluster": "edge", "namespace": "default", "vnfd_id": "d", "flavour_id": "simple",
            "vdus": vdus, "aspects": {"aspect": {"max_scale_level": 1, "deltas": {"VDU1": 1}}},
        }  # fmt: skip

    def _ask(
        self, client: httpx.Client, method: str, path: str, into: dict[str, Any] | None = None, **more: Any
    ) -> int:
        try:
            answer = client.request(method, path, **more)
        except httpx.TransportError:
            self.answers[method, _UNKNOWN] += 1
            return _UNKNOWN
        self.answers[method, answer.status_code] += 1
        if answer.status_code >= 500:
            self.bad.append(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        if into is not None:
            into.clear()
            into.update(answer.json())
        return answer.status_code


class Clients:
    """Some of them at work, each in a thread, as long as the block lasts."""

    def __init__(self, *clients: RowWriter | Manager) -> None:
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=each.run, args=(self._ended,), daemon=True) for each in clients]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(deadline(60))
        assert not any(thread.is_alive() for thread in self._threads)
