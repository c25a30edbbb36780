# SPDX-License-Identifier: Apache-2.0
"""A line of the log has the text of an exception once."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable

import pytest
from oslo_config import cfg
from oslo_log import formatters
from oslo_log import log as oslo_logging

from watcher_sync.assembly import safe_logging


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    conf = cfg.ConfigOpts()
    oslo_logging.register_options(conf)
    conf([], default_config_files=[], default_config_dirs=[])

    def log(name: str, message: str, error: Exception, *, has_traceback: bool = False) -> str:
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        inner = formatters.ContextFormatter(config=conf)
        handler.setFormatter(safe_logging._Formatter(inner, has_colours=False))
        logger = logging.getLogger(name)
        monkeypatch.setattr(logger, "handlers", [handler])
        monkeypatch.setattr(logger, "propagate", False)
        try:
            raise error
        except Exception as exc:
            logger.warning(message, exc_info=exc if has_traceback else None)
        return stream.getvalue()

    return log


@pytest.mark.parametrize("has_traceback", [False, True])
@pytest.mark.parametrize("name", ["watcher_sync.sources", "library"])
def test_the_text_of_an_exception_is_in_its_line_once(
    logged: Callable[..., str], name: str, *, has_traceback: bool
) -> None:
    text = logged(name, "source nova: the broker is away", OSError("the broker is away"), has_traceback=has_traceback)
    assert text.splitlines()[0].endswith("source nova: the broker is away")
    assert ("Traceback" in text) is has_traceback


def test_our_own_line_has_nothing_of_an_exception_in_hand_that_it_does_not_name(logged: Callable[..., str]) -> None:
    assert logged("watcher_sync.api", "unavailable", OSError("a long text")).endswith("unavailable\n")


def test_a_library_and_an_unexpected_error_name_the_exception(logged: Callable[..., str]) -> None:
    assert "failed: OSError: why" in logged("library", "failed", OSError("why"))
    assert "failed: OSError: why" in logged(
        "watcher_sync.extensions.watch", "failed", OSError("why"), has_traceback=True
    )
