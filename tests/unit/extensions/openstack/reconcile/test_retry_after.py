# SPDX-License-Identifier: Apache-2.0
"""The header ``Retry-After`` in every form."""

from __future__ import annotations

import pytest

from watcher_sync.extensions.openstack.cloud.errors import _seconds


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 1.0),
        ("7", 7.0),
        ("²", 1.0),
        ("soon", 1.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 -0000", 0.0),
    ],
)
def test_a_pause_is_a_number_or_a_date_and_anything_else_is_the_default(header, seconds):
    assert _seconds(header) == seconds


@pytest.mark.parametrize(
    ("header", "sent", "seconds"),
    [
        ("Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:27:53 GMT", 7.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:29:00 GMT", 0.0),
        ("7", "Wed, 21 Oct 2015 07:27:00 GMT", 7.0),
    ],
)
def test_a_date_to_wait_for_is_by_the_clock_of_the_service(header, sent, seconds):
    assert _seconds(header, sent) == seconds
