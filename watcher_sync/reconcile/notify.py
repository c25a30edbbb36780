# SPDX-License-Identifier: Apache-2.0
"""Sends notifications of our own to listeners on the message bus.

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
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.accounts import cause_of

LOG = logging.getLogger(__name__)

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

    def put(self, priority: str, event_type: str, payload: dict[str, Any]) -> None:
        """Send a notification; dropped if too many wait.

        :param priority: ``info``, ``warn`` or ``error``.
        """
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
