# SPDX-License-Identifier: Apache-2.0
"""What a pod's event costs until its VNF instance is written has a limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tracing import STAGES, trace


@pytest.mark.slow
def test_a_pod_and_its_instance_cost_one_transaction_and_few_calls_between_their_rows(tmp_path: Path):
    walks = trace(tmp_path)
    pod = walks["pod of a VNF instance"]
    assert pod.transactions == 1
    assert 0 < pod.between <= 119
    assert walks["instance.update"].transactions == 1
    assert all(pod.count(stage) > 0 for stage in STAGES)
