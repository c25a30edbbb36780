# SPDX-License-Identifier: Apache-2.0
"""A wrong option is named, and a stream that is not fit is described."""

from __future__ import annotations

from typing import Any

import pytest
from oslo_config import cfg

from watcher_sync.conf import opts
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.log.nats_jetstream.outlet import NatsJetStreamOutlet
from watcher_sync.extensions.log.nats_jetstream.settings import JetStreamOutletSettings, LogStreamSpec
from watcher_sync.extensions.log.nats_jetstream.streams import (
    LogStreamConfig,
    MirrorConfig,
    wrong_with_changes,
    wrong_with_model,
)
from watcher_sync.extensions.log.options import OUTLETS


def outlet(**values: Any) -> NatsJetStreamOutlet:
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    opts.register_instance(conf, OUTLETS, "bus", NatsJetStreamOutlet.options)
    for option, value in values.items():
        conf.set_override(option, value, group="outlet_bus")
    return NatsJetStreamOutlet("bus", conf)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("servers", []),
        ("servers", ["http://127.0.0.1"]),
        ("servers", ["nats://u:a/b@127.0.0.1:4222"]),
        ("stream", "a.b"),
        ("domain", "*"),
        ("subject_prefix", "log.>"),
        ("subject_prefix", ""),
        ("tls_ca_file", "/does/not/exist"),
        ("password", "secret"),
    ],
)
def test_a_wrong_option_is_named(option: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"^\[outlet_bus\] {option}\b"):
        outlet(**{option: value})


def test_an_outlet_that_was_never_opened_can_be_closed_twice() -> None:
    made = outlet()
    made.close()
    made.close()


def spec(**values: Any) -> LogStreamSpec:
    return JetStreamOutletSettings("bus", outlet(**values).group).streams


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("subjects", ["watcher-sync.>"], "subjects are watcher-sync.>, not watcher-sync.north.>"),
        ("subjects", [], "subjects are not set, not watcher-sync.north.>"),
        ("retention", "workqueue", "retention is workqueue, not limits"),
        ("discard", "new", "discard is new, not old"),
        ("max_msgs_per_subject", 1, "max_msgs_per_subject is 1, so changes would be missing"),
        ("mirror", MirrorConfig(name="other"), "it is a mirror"),
        ("no_ack", True, "no_ack is set"),
        ("sealed", True, "sealed is set"),
        ("sources", [{"name": "other"}], "sources is set"),
        ("subject_transform", {"src": ">"}, "subject_transform is set"),
        ("subject_delete_marker_ttl", 10**9, "subject_delete_marker_ttl is set"),
    ],
)
def test_a_stream_of_changes_that_is_not_fit_is_described(field: str, value: object, reason: str) -> None:
    wanted = spec(partition="north")
    fit: dict[str, Any] = {"subjects": ["watcher-sync.north.>"], "max_age": 10**9, "max_bytes": 10**9}
    assert wrong_with_changes(LogStreamConfig(**fit), wanted) == []
    assert wrong_with_changes(LogStreamConfig(**fit | {field: value}), wanted) == [reason]


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("mirror", None, "it is no mirror of all of watcher-sync"),
        ("mirror", MirrorConfig(name="other"), "it is no mirror of all of watcher-sync"),
        ("mirror", MirrorConfig(name="watcher-sync", opt_start_seq=9), "it is no mirror of all of watcher-sync"),
        ("max_msgs_per_subject", -1, "max_msgs_per_subject is -1, not 1"),
        ("discard", "new", "discard is new, not old"),
        ("deny_purge", True, "deny_purge is set"),
        ("max_age", 10**9, "max_age is set, so entities would be missing"),
        ("max_msgs", 5, "max_msgs is set, so entities would be missing"),
        ("max_bytes", 5, "max_bytes is set, so entities would be missing"),
    ],
)
def test_a_stream_of_the_model_that_is_not_fit_is_described(field: str, value: object, reason: str) -> None:
    fit: dict[str, Any] = {"mirror": MirrorConfig(name="watcher-sync"), "max_msgs_per_subject": 1}
    assert wrong_with_model(LogStreamConfig(**fit), spec()) == []
    assert wrong_with_model(LogStreamConfig(**fit | {field: value}), spec()) == [reason]
