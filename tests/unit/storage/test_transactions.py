# SPDX-License-Identifier: Apache-2.0
"""Every place that begins a write transaction has a case in the fault tests, where a leader's machine stops in it."""

from __future__ import annotations

import pytest

from tests.faults.transactions import CASES, EXEMPT, transactions


@pytest.mark.slow
def test_every_kind_of_transaction_has_a_case() -> None:
    assert transactions() == CASES.keys() | EXEMPT.keys()
