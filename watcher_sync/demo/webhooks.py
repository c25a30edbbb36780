# SPDX-License-Identifier: Apache-2.0
"""Webhooks in the demo: an outlet, a receiver, and subscriptions to a VNF instance and to a server.

The receiver (:mod:`watcher_sync.demo.receiver`) starts before the configuration is written. The outlet starts when the
schema exists. The subscriptions are created through the demo's own API while the cluster and the cloud rest. Otherwise
a resource could be created before the receiver reads the status, and deleted before the first delivery. Such changes
cancel out, and the receiver would keep the resource.

Guarantee: after the last commit, the receiver's view becomes equal to the model. The demo waits for this and
compares.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import time
from collections.abc import Iterator
from typing import Any, Final, Self

import msgspec
import requests
from oslo_config import cfg

from watcher_sync.demo.limits import DemoFailed, Limits
from watcher_sync.demo.network_functions import FUNCTIONS
from watcher_sync.demo.receiver import Receiver, View
from watcher_sync.exceptions import WatcherSyncError
from watcher_sync.extensions.openstack.kinds import Instance
from watcher_sync.extensions.webhooks.assembly import WebhookOutlet, assemble
from watcher_sync.extensions.webhooks.onap.documents import find_instance, resource_document, resources_of
from watcher_sync.extensions.webhooks.secrets import new_key
from watcher_sync.extensions.webhooks.standard_webhooks import new_secret
from watcher_sync.model.model import Snapshot
from watcher_sync.testing.deadlines import Deadline, deadline

_CONFIG: Final = """
[outlet_webhook]
# The receiver is in this process, and it has no certificate.
allow_http = true
allowed_networks = 127.0.0.0/8
secret_keys = {key}
"""

_POLL_SECONDS: Final = 0.05
_STOP_SECONDS: Final = 5.0
_INTERVAL_SECONDS: Final = 1
"""Changes of the VNF instance are merged for this time."""


class _Wanted(msgspec.Struct, frozen=True):
    """One subscription."""

    name: str
    instance_id: str
    interval: int
    """Seconds between two deliveries."""


class Webhooks:
    """The subscriptions of one demo; none, where it is to run without."""

    def __init__(self, receiver: Receiver | None, limits: Limits) -> None:
        self._receiver = receiver
        self._limits = limits
        self._outlet: WebhookOutlet | None = None
        self._subscribed: list[_Wanted] = []
        self._recent: collections.deque[str] = collections.deque(maxlen=10)
        self._unprinted: collections.deque[str] = collections.deque(maxlen=100)
        self.config = _CONFIG.format(key=new_key()) if receiver is not None else ""
        """What the configuration says of the outlet."""

    @classmethod
    @contextlib.contextmanager
    def begun(cls, options: argparse.Namespace, limits: Limits) -> Iterator[Self]:
        """With a receiver that answers, where one is wanted."""
        if not options.webhooks:
            yield cls(None, limits)
            return
        with contextlib.closing(Receiver()) as receiver:
            receiver.start()
            webhooks = cls(receiver, limits)
            try:
                yield webhooks
            finally:
                webhooks.stop()

    def prepare(self, conf: cfg.ConfigOpts) -> None:
        """Start the outlet; the schema exists.

        :raises WatcherSyncError: the database is unavailable.
        """
        if self._receiver is not None:
            self._outlet = assemble(conf)
            self._outlet.start()

    def stop(self) -> None:
        """Stop the outlet."""
        outlet, self._outlet = self._outlet, None
        if outlet is not None:
            outlet.stop(deadline(_STOP_SECONDS))

    @property
    def failure(self) -> str:
        """What ended the outlet before its time; empty: it runs, or is not wanted."""
        ended = self._outlet is not None and not self._outlet.worker.is_alive()
        return "its thread has ended" if ended else ""

    def subscribe(self, url: str, snapshot: Snapshot) -> None:
        """Subscribe to the first VNF instance and to the first server that runs, where there is one.

        :param url: where the API is served.
        :param snapshot: the model, with what is to be subscribed to.
        :raises WatcherSyncError: the API refuses a subscription.
        """
        if self._receiver is None:
            return
        with requests.Session() as session:
            session.trust_env = False  # the loopback interface is not reached over a proxy
            for wanted in _wanted(snapshot):
                self._subscribe(session, url, wanted)
                self._subscribed.append(wanted)

    def _ask(
        self, session: requests.Session, method: str, url: str, status: int, body: dict[str, Any] | None = None
    ) -> Any:
        return _ask(session, method, url, status, body, timeout=deadline(self._limits.answer))

    def _subscribe(self, session: requests.Session, url: str, wanted: _Wanted) -> None:
        assert self._receiver is not None
        secret = new_secret()
        body = {
            "name": wanted.name,
            "min-notify-interval": wanted.interval,
            "callback-url": self._receiver.expect(wanted.name, secret),
            "secret": secret,
            "metadata": {"who": "watcher-sync demo"},
        }
        status = f"{url}/v1/instance/{wanted.instance_id}/status"
        self._ask(session, "POST", f"{status}/subscription", 201, body)
        self._receiver.begin(wanted.name, self._ask(session, "GET", status, 200)["resourcesStatus"])

    # What is shown

    @property
    def subscribed(self) -> list[str]:
        """The subscriptions, as words for where to look."""
        return [f"{wanted.name} of {wanted.instance_id}" for wanted in self._subscribed]

    def new_lines(self) -> list[str]:
        """A line for each delivery since the last call, at most the last 100."""
        self._collect()
        lines = list(self._unprinted)
        self._unprinted.clear()
        return lines

    def recent(self) -> list[str]:
        """The lines of the last deliveries, the oldest first."""
        self._collect()
        return list(self._recent)

    def _collect(self) -> None:
        for line in self._receiver.take_lines() if self._receiver is not None else []:
            self._recent.append(line)
            self._unprinted.append(line)

    def summary(self) -> list[str]:
        """What was delivered, as lines of a heading and a text."""
        if self._receiver is None:
            return []
        lines = [
            f"{wanted.name}: {self._receiver.deliveries(wanted.name):,} deliveries, "
            f"{len(self._receiver.view(wanted.name)):,} resources in the receiver's view"
            for wanted in self._subscribed
        ]
        return [f"{heading:<11}{text}" for heading, text in zip(("Webhooks", *[""] * 99), lines, strict=False)]

    # The comparison

    def catch_up(self, snapshot: Snapshot) -> None:
        """Wait until the receiver's view equals the model. A refusal does not go away and is not waited for.

        :param snapshot: the model at its end.
        :raises DemoFailed: the view does not become equal in time.
        """
        limit, began = Deadline(self._limits.catch_up), time.monotonic()
        while not self.failure:
            is_last = limit.is_over
            lacking = [each for wanted in self._subscribed for each in self._lag(wanted, snapshot)]
            if not lacking:
                return
            if is_last:
                raise DemoFailed(f"{lacking[0]} {time.monotonic() - began:.0f} s after the last commit")
            time.sleep(_POLL_SECONDS)

    def differences(self, snapshot: Snapshot) -> list[str]:
        """Where the receiver has something else than the model, a sentence each."""
        return [sentence for wanted in self._subscribed for sentence in self._differences(wanted, snapshot)]

    def _differences(self, wanted: _Wanted, snapshot: Snapshot) -> Iterator[str]:
        assert self._receiver is not None
        yield from self._lag(wanted, snapshot)
        refused = self._receiver.refused(wanted.name)
        if refused:
            yield f"the receiver of {wanted.name} refused a delivery: {refused}"

    def _lag(self, wanted: _Wanted, snapshot: Snapshot) -> Iterator[str]:
        """What later deliveries may still bring."""
        assert self._receiver is not None
        expected = expected_view(snapshot, wanted.instance_id)
        yield from view_differences(wanted.name, expected, self._receiver.view(wanted.name))


def view_differences(name: str, expected: View, received: View) -> Iterator[str]:
    """Where the view of a receiver differs from what it has to be, a sentence each.

    :param name: of the subscription.
    """
    for key in sorted(expected.keys() | received.keys()):
        if key not in received:
            yield f"the receiver of {name} lacks {key[0]} {key[1]}"
        elif key not in expected:
            yield f"the receiver of {name} still has {key[0]} {key[1]}"
        elif received[key] != expected[key]:
            yield f"the receiver of {name} has another state of {key[0]} {key[1]}"


def _wanted(snapshot: Snapshot) -> Iterator[_Wanted]:
    function = FUNCTIONS[0]
    if snapshot.get("vnf_instance", function.id) is not None:
        yield _Wanted(f"{function.name}-resources", function.id, _INTERVAL_SECONDS)
    active = [each.id for each in snapshot.all("instance") if isinstance(each, Instance) and each.state == "active"]
    if active:
        yield _Wanted("server", min(active), 0)


def expected_view(snapshot: Snapshot, instance_id: str) -> View:
    """The view that a receiver has to have: as JSON, like what it received."""
    found = find_instance(snapshot, instance_id)
    if found is None:
        return {}
    kind, instance = found
    view: View = {}
    for name, entity in resources_of(snapshot, kind, instance):
        document = resource_document(snapshot.kinds[name], entity, full=False, hidden={})
        view[name, entity.id] = msgspec.json.decode(msgspec.json.encode(document))
    return view


def _ask(
    session: requests.Session, method: str, url: str, status: int, body: dict[str, Any] | None, *, timeout: float
) -> Any:
    """The answer, decoded.

    :raises WatcherSyncError: there is none, or it has another status.
    """
    try:
        answer = session.request(method, url, json=body, timeout=timeout)
    except requests.RequestException as exc:
        raise WatcherSyncError(f"the API does not answer to {method} {url}: {exc}") from exc
    if answer.status_code != status:
        raise WatcherSyncError(f"the API answers {answer.status_code} to {method} {url}")
    return answer.json()
