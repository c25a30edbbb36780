# SPDX-License-Identifier: Apache-2.0
"""The API, as the tests of the core have it, for the resources of each extension."""

from tests.unit.api.conftest import application, client, conf, cycle, problem, store, truth  # noqa: F401
