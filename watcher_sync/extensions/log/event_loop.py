# SPDX-License-Identifier: Apache-2.0
"""An event loop in a thread of its own, for a driver whose library needs one.

The loop runs between the calls of the driver, too, so the library answers heartbeats. The loop of a connection that
failed is closed with it, and everything that the connection left in the loop ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_CANCEL_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 5.0
"""How long a loop may need for anything but the work: after this it counts as stuck."""


class EventLoopThread:
    """One loop. Made, used and closed by one thread.

    :param name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """The result of the work.

        :raises TimeoutError: after so many seconds; the work is cancelled.
        """

        async def limited() -> T:
            async with asyncio.timeout(seconds):
                return await work

        return asyncio.run_coroutine_threadsafe(limited(), self._loop).result(seconds + _ANSWER_SECONDS)

    def close(self) -> None:
        """Cancel what still runs, and end the thread."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop)
        self._thread.join(_CANCEL_SECONDS + _ANSWER_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def _stop(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
        self._loop.stop()
