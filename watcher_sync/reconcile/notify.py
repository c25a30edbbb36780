# SPDX-License-Identifier: Apache-2.0
"""Notifications about syncs and drifts, for listeners on the message bus.

oslo.messaging sends them as the operator's ``[oslo_messaging_notifications]`` says. If no driver is set there, nothing
connects. Delivery is not guaranteed. While the broker is away, notifications wait in a bounded queue. Those that do not
fit are dropped and counted. Listeners read the model or the journal for the full state.

Every method returns at once and raises nothing. One thread sends. The first notification starts it, because threads
have to be started after a fork.
"""

from __future__ import annotations

import queue
import socket
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.accounts import cause_of
from watcher_sync.model.vnf.kinds import VnfInstance
from watcher_sync.storage.drifts import FieldDifference

LOG = logging.getLogger(__name__)

SYNC_START = "vnf_instance.sync.start"
SYNC_END = "vnf_instance.sync.end"
SYNC_ERROR = "vnf_instance.sync.error"
DRIFT = "vnf_instance.drift"

MOST_DIFFERENCES = 20
"""Differences in one payload; its ``count`` is the number of all."""
_LONGEST_VALUE = 200
"""Bytes of a value's JSON; a longer value is left out."""

_GROUP = "oslo_messaging_notifications"


class Notifications:
    """Sends notifications. For any thread."""

    def __init__(self, conf: cfg.ConfigOpts, *, room: int = 1000) -> None:
        """:param room: how many notifications may wait to be sent."""
        # Not at the top: the library is to be imported after the process has chosen native threads.
        from oslo_messaging import opts

        for group, options in opts.list_opts():
            if group == _GROUP:
                conf.register_opts(options, group=_GROUP)
        self._conf = conf
        self._publisher_id = f"watcher_sync.{socket.gethostname()}"
        self.wanted = any(driver != "noop" for driver in conf[_GROUP].driver)
        """Whether anything is sent at all."""
        # The library documents -1 as "retry without limit". Without a connection it does not retry at all: it drops
        # each message and logs its payload.
        self._retry: int = conf[_GROUP].retry if conf[_GROUP].retry >= 0 else sys.maxsize
        self.dropped = 0
        """Notifications that did not fit, or that could not be sent."""
        self._waiting: queue.Queue[tuple[str, str, dict[str, Any]]] = queue.Queue(room)
        self._full = False
        # Guards _thread, _full and dropped.
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def sync_start(self, vnf: VnfInstance) -> None:
        """The sync of an instance begins."""
        self._put("info", SYNC_START, _about(vnf))

    def sync_end(self, vnf: VnfInstance, results: Mapping[str, str], pods: Mapping[str, int]) -> None:
        """The sync of an instance ended.

        :param results: VDU -> such as SYNCED or NO_DIFF.
        :param pods: VDU -> how many pods count.
        """
        self._put("info", SYNC_END, {**_about(vnf), "results": dict(results), "pods": dict(pods)})

    def sync_error(self, vnf: VnfInstance, why: str) -> None:
        """The sync of an instance failed.

        :param why: one sentence.
        """
        self._put("error", SYNC_ERROR, {**_about(vnf), "why": why})

    def drift(self, vnf: VnfInstance, differences: Collection[FieldDifference]) -> None:
        """The instance differs from what runs."""
        shown = [_difference(difference) for difference in list(differences)[:MOST_DIFFERENCES]]
        self._put("warn", DRIFT, {**_about(vnf), "count": len(differences), "differences": shown})

    def flush(self, timeout: float) -> bool:
        """Wait until everything is sent. Return whether it is.

        :param timeout: seconds.
        """
        deadline = time.monotonic() + timeout
        with self._waiting.all_tasks_done:
            while self._waiting.unfinished_tasks:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._waiting.all_tasks_done.wait(left)
        return True

    def _put(self, priority: str, event_type: str, payload: dict[str, Any]) -> None:
        if not self.wanted:
            return
        with self._lock:
            try:
                self._waiting.put_nowait((priority, event_type, payload))
                self._full = False
            except queue.Full:
                self.dropped += 1
                if not self._full:
                    LOG.warning("Notifications are dropped: %d wait for the broker already", self._waiting.maxsize)
                self._full = True
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._send, name="notifications", daemon=True)
                self._thread.start()

    def _send(self) -> None:
        import oslo_messaging

        notifier: Any = None
        failing = False
        while True:
            priority, event_type, payload = self._waiting.get()
            try:
                if notifier is None:
                    transport = oslo_messaging.get_notification_transport(self._conf)
                    notifier = oslo_messaging.Notifier(transport, publisher_id=self._publisher_id, retry=self._retry)
                getattr(notifier, priority)({}, event_type, payload)
                failing = False
            except Exception as exc:  # noqa: BLE001 - the supervised edge: counted, and the next is tried
                with self._lock:
                    self.dropped += 1
                if not failing:
                    LOG.warning("Notifications cannot be sent: %s", cause_of(exc) or type(exc).__name__)
                failing = True
            finally:
                self._waiting.task_done()


def _about(vnf: VnfInstance) -> dict[str, Any]:
    return {"id": vnf.id, "name": vnf.name, "cluster": vnf.cluster, "namespace": vnf.namespace}


def _difference(difference: FieldDifference) -> dict[str, Any]:
    shown: dict[str, Any] = {"field": difference.field, "policy": difference.policy}
    values: Sequence[tuple[str, Any]] = (
        ("model_value", difference.model_value),
        ("live_value", difference.live_value),
    )
    for name, value in values:
        text = msgspec.json.encode(value)
        if len(text) <= _LONGEST_VALUE:
            shown[name] = msgspec.json.decode(text)
    return shown
