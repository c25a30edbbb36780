# SPDX-License-Identifier: Apache-2.0
"""A model that follows the notifications of a Nova with its default configuration.

Without ``[notifications] notify_on_state_change`` Nova publishes no ``instance.update``, and all else as before. So
this model takes the recorded notifications without these events, in the process of the test.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests import simulated
from tests.real_nova.recording import Notification
from tests.real_nova.truth import KINDS, Rows
from watcher_sync.wire.envelopes import read_document

DEFAULTS = "default notifications"
"""The mode."""

UNPUBLISHED = "instance.update"
"""The event type that such a Nova does not publish."""


class DefaultNotifications:
    """The model of the mode DEFAULTS."""

    def __init__(self) -> None:
        self._model = simulated.new_model()
        self._dispatcher = simulated.nova()

    def feed(self, notifications: Iterable[Notification]) -> None:
        """Apply the notifications of a step."""
        documents = [n.document for n in notifications if n.event_type != UNPUBLISHED]
        events = [read_document(document, source="nova", number=number) for number, document in enumerate(documents)]
        simulated.play(self._model, self._dispatcher, events)

    def model(self) -> dict[str, Rows]:
        """Kind -> id -> fields."""
        snapshot = self._model.snapshot()
        return {kind: {row["id"]: row for row in snapshot.dump(kind)} for kind in KINDS}
