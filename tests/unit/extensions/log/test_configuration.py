# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the options of outlets are reported at the start, with the option."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from tests.functional.log.memory_log import configured
from watcher_sync.conf import opts
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.log import assembly as log
from watcher_sync.extensions.log.options import OUTLETS
from watcher_sync.extensions.log.selection import OutletSelection
from watcher_sync.testing.kinds import builtin_kinds


@pytest.mark.parametrize(
    ("enabled", "words"),
    [
        (["bus"], "[outlet_bus] driver is not set"),
        (["moon"], "[outlet_moon] driver = moon is not installed; there are "),
        (["watch"], "[outlets] enabled names 'watch', which has a section of its own"),
        (["moon" * 17], "[outlets] enabled names 'moonmoon"),
        (["moon", "moon"], "[outlet_moon] driver = moon is not installed"),
    ],
)
def test_an_outlet_that_cannot_be_made_is_named(enabled: list[str], words: str) -> None:
    conf = configured()
    opts.register_instance(conf, OUTLETS, "moon")
    conf.set_override("driver", "moon", group="outlet_moon")
    conf.set_override("enabled", enabled, group="outlets")
    with pytest.raises(ConfigError) as error:
        log.check(conf)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kinds": ["instance", "moon"]}, "[outlet_bus] kinds: moon is unknown; there are aggregate, "),
        ({"kinds": ["pod"], "fields": ["host"]}, "[outlet_bus] fields: host is unknown; there are "),
    ],
)
def test_an_unknown_kind_or_field_is_named_with_those_that_there_are(options: dict[str, list[str]], words: str) -> None:
    conf: cfg.ConfigOpts = configured(**options)
    with pytest.raises(ConfigError) as error:
        OutletSelection("bus", conf, builtin_kinds())
    assert str(error.value).startswith(words)


@pytest.mark.parametrize("partition", ["region 1", "region.1", "region/1", "*", "a" * 65, ""])
def test_a_partition_that_is_no_token_of_a_subject_is_refused(partition: str) -> None:
    with pytest.raises(ValueError, match="doesn't match regex"):
        configured(partition=partition)
