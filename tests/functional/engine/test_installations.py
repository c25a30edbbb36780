# SPDX-License-Identifier: Apache-2.0
"""The tests' own tools, where a fault of theirs would pass for one of the engine's."""

from __future__ import annotations

from collections.abc import Callable

from tests.functional.engine.driving import Installation


def test_two_installations_of_one_test_share_neither_configuration_nor_log(
    install: Callable[..., Installation], sqlite_url: str
) -> None:
    one, other = install(sqlite_url), install(sqlite_url + ".other")
    config = one.config()
    assert config != other.config()
    assert not set(one.folder.iterdir()) & set(other.folder.iterdir())
    assert f"connection = {one.url}\n" in config.read_text()
