# SPDX-License-Identifier: Apache-2.0
"""Rules of CloudEvents 1.0.2 that publishers and consumers often miss, each in a test of its name."""

from __future__ import annotations

import base64
import datetime
import json
from typing import Any

import pytest

from tests.unit.wire.test_cloud_events import BODY, GOOD, HEADERS, PLACE, structured, without
from watcher_sync.wire.envelopes import read_body, read_message

ENCODED = base64.b64encode(BODY).decode()


def test_data_together_with_data_base64_is_refused() -> None:
    event = structured(GOOD | {"data_base64": ENCODED})
    assert event.undecodable == "data and data_base64 are both there"
    assert json.loads(event.data)["data_base64"] == ENCODED


@pytest.mark.parametrize("other", [{"data_base64": None}, {"data": None, "data_base64": ENCODED}])
def test_a_member_that_is_null_is_absent(other: dict[str, Any]) -> None:
    event = structured(GOOD | other)
    assert (event.undecodable, event.read()) == (None, GOOD["data"])


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ('"vm-1"', "vm-1"),
        ('  "a b"  ', "a b"),
        (r'"a \"b\" \\ c"', r'a "b" \ c'),
        ('"caf%C3%A9"', "café"),
        ("%22vm%22", '"vm"'),
        ("a%2520b", "a%20b"),
        ('vm"1', 'vm"1'),
        ("100%", "100%"),
        (" vm-1\t", "vm-1"),
    ],
)
def test_header_values_are_unquoted_and_percent_decoded_once(header: str, value: str) -> None:
    event = read_message(BODY, HEADERS | {"ce-subject": header}, **PLACE)
    assert (event.undecodable, event.subject) == (None, value)


@pytest.mark.parametrize("value", ["%FF", "vm%C0%A0", "%E4", '"caf%E9"', "%ED%A0%80"])
@pytest.mark.parametrize("name", ["id", "subject", "comexampleextension"])
def test_percent_decoding_that_is_no_utf_8_is_refused(name: str, value: str) -> None:
    event = read_message(BODY, HEADERS | {f"ce-{name}": value}, **PLACE)
    assert event.undecodable == f"the header ce-{name} is percent-encoded, and no UTF-8"
    assert event.sequence == PLACE["sequence"]
    assert read_body(event.data, **PLACE).undecodable is not None or name != "id"


@pytest.mark.parametrize("value", ['"vm', 'vm"', '"a"b"', '"a\\"'])
def test_a_value_that_is_not_quoted_whole_is_taken_as_it_is(value: str) -> None:
    assert read_message(BODY, HEADERS | {"ce-subject": value}, **PLACE).subject == value


def test_the_specversion_may_be_quoted() -> None:
    event = read_message(BODY, HEADERS | {"ce-specversion": '"1.0"'}, **PLACE)
    assert (event.undecodable, event.id) == (None, "c-1")


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-02t03:04:05z", datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)),
        ("2026-01-02t03:04:05.25+02:00", datetime.datetime(2026, 1, 2, 1, 4, 5, 250_000, tzinfo=datetime.UTC)),
        ("2016-12-31T23:59:60Z", datetime.datetime(2017, 1, 1, tzinfo=datetime.UTC)),
        ("2016-12-31T23:59:60.5Z", datetime.datetime(2017, 1, 1, 0, 0, 0, 500_000, tzinfo=datetime.UTC)),
        ("1990-12-31T15:59:60-08:00", datetime.datetime(1991, 1, 1, tzinfo=datetime.UTC)),
    ],
)
def test_rfc_3339_allows_lower_case_t_and_z_and_second_60(text: str, time: datetime.datetime) -> None:
    for event in (structured(GOOD | {"time": text}), read_message(BODY, HEADERS | {"ce-time": text}, **PLACE)):
        assert (event.undecodable, event.time) == (None, time)


@pytest.mark.parametrize("text", ["2026-01-02T03:04:61Z", "2026-01-02T03:60:05Z", "9999-12-31T23:59:60Z"])
def test_other_numbers_out_of_range_are_no_times(text: str) -> None:
    event = structured(GOOD | {"time": text})
    assert event.undecodable is not None
    assert event.undecodable.startswith("time is")


def test_gos_zero_time_is_no_time() -> None:
    assert structured(GOOD | {"time": "0001-01-01T00:00:00Z"}).time is None
    assert structured(without(GOOD, "time")).time is None
