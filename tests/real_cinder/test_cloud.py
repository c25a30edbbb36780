# SPDX-License-Identifier: Apache-2.0
"""The cloud itself: it is up, and its clients can use it."""

from __future__ import annotations

from tests.real_cinder.settings import BACKENDS, HOST


def test_the_scheduler_knows_each_pool(cloud):
    known = {pool["name"] for pool in cloud.admin().pools_of_scheduler()}
    assert known == {f"{HOST}@{backend}#{pool}" for backend, pools in BACKENDS.items() for pool in pools}
