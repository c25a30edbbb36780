# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.checks.waits import check


def found(body, decorator=""):
    source = f"import time\n\n{decorator}\ndef test_it(thread, began):\n    {body}\n"
    return [line.partition(": ")[2] for line in check("tests/unit/test_it.py", source)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("thread.join(60)", "a timeout in plain seconds"),
        ("thread.run(timeout=60)", "a timeout in plain seconds"),
        ("end = time.monotonic() + 60", "a deadline by hand"),
        ("assert time.monotonic() - began < 60", "an assertion on a duration"),
        ("assert 60 > time.monotonic() - began", "an assertion on a duration"),
        ("time.sleep(1)", "a sleep"),
    ],
)
def test_a_wait_in_plain_seconds_is_found(body, message):
    (line,) = found(body)
    assert line.startswith(message)


@pytest.mark.parametrize(
    "body",
    [
        "thread.join(deadline(60))",
        "end = time.monotonic() + deadline(60)",
        "assert time.monotonic() - began < deadline(60)",
        "assert time.monotonic() - began >= 60",
        "thread.join(60)  # wait: the reason",
    ],
)
def test_what_scales_a_lower_bound_and_an_exception_with_its_reason_are_not(body):
    assert found(body) == []


def test_a_test_that_runs_alone_may_measure():
    assert found("assert time.monotonic() - began < 60", "@pytest.mark.alone") == []
