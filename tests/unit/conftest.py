# SPDX-License-Identifier: Apache-2.0
"""For all unit tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def root_handlers() -> Iterator[None]:
    """A test that sets up logging leaves no handler behind: the stream of the handler ends with the test."""
    before = list(logging.root.handlers)
    yield
    logging.root.handlers[:] = [handler for handler in logging.root.handlers if handler in before]
