# SPDX-License-Identifier: Apache-2.0
"""What the log says of events in quarantine."""

from __future__ import annotations

import pytest

from watcher_sync.commit.batch_dispatch import FailureLog
from watcher_sync.events import Event
from watcher_sync.storage.stored.stored_events import RefusedEvent


def refused(reason: str, *, source: str = "nova", detail: str = "") -> RefusedEvent:
    return RefusedEvent(Event(id="1", type="test", source=source), reason, detail)


def test_each_source_and_reason_has_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    log = FailureLog(lambda: now[0])
    log.log_quarantined([*[refused("uuid is missing")] * 2, refused("uuid is missing", source="b")])
    log.log_quarantined([refused("name is missing"), refused("unauthorised: a"), refused("unauthorised: b")])
    assert caplog.messages == [
        "source nova: uuid is missing (the event is in quarantine)",
        "source b: uuid is missing (the event is in quarantine)",
        "source nova: name is missing (the event is in quarantine)",
        "source nova: unauthorised: a (the event is in quarantine)",
    ]
    now[0] = 60.0
    log.log_quarantined([refused("uuid is missing")])
    assert len(caplog.messages) == 5


def test_reasons_that_differ_in_every_event_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log = FailureLog(lambda: 0.0)
    log.log_quarantined([refused(f"no time in {number}: {'x' * 1000}") for number in range(1000)])
    assert len(caplog.messages) == 50
    assert max(map(len, caplog.messages)) < 400


@pytest.mark.parametrize("value", ["secret", "it's secret", "a\n secret", """both ' and " secret""", "' '\" secret"])
def test_no_line_repeats_a_value_of_an_event(value: str, caplog: pytest.LogCaptureFixture) -> None:
    log = FailureLog(lambda: 0.0)
    log.log_quarantined([refused(f"data.password: {value!r} is no number; 1 is")])
    log.log_failure("nova", f"the handler nova failed: ValueError: {value!r} is no number")
    assert caplog.messages == [
        "source nova: data.password: '...' is no number; 1 is (the event is in quarantine)",
        "the handler nova failed: ValueError: '...' is no number (the event is in quarantine, with the traceback)",
    ]


def test_a_failure_of_a_handler_is_logged_by_the_dispatch_alone(caplog: pytest.LogCaptureFixture) -> None:
    FailureLog(lambda: 0.0).log_quarantined([refused("the handler failed", detail="Traceback")])
    assert not caplog.messages
