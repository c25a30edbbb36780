# SPDX-License-Identifier: Apache-2.0
"""What may stand in ``[reconcile]``."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from watcher_sync.conf import opts, reconcile
from watcher_sync.exceptions import ConfigError


@pytest.fixture
def configured(tmp_path):
    def read(text):
        file = tmp_path / "watcher-sync.conf"
        file.write_text(text)
        conf = cfg.ConfigOpts()
        opts.register_opts(conf)
        conf(["--config-file", str(file)], default_config_files=[], default_config_dirs=[])
        return conf

    return read


def test_the_interval_is_accepted_under_its_old_name(configured):
    assert configured("[DEFAULT]\ndb_synchronization_interval = 120\n").reconcile.interval == 120
    assert configured("[reconcile]\ninterval = 60\n").reconcile.interval == 60
    assert configured("").reconcile.interval == 300


def test_kinds_have_policies_of_their_own(configured):
    assert reconcile.policies(configured("")) == {}
    conf = configured("[reconcile]\npolicy = vnf_instance:observe, pod:heal\n")
    assert reconcile.policies(conf) == {"vnf_instance": "observe", "pod": "heal"}


def test_a_policy_that_there_is_not_is_named(configured):
    conf = configured("[reconcile]\npolicy = pod:mend\n")
    with pytest.raises(ConfigError, match=r"^\[reconcile\] policy: pod is 'mend'; it can be heal or observe$"):
        reconcile.policies(conf)


def test_a_policy_for_a_kind_that_there_is_not_is_named(configured):
    conf = configured("[reconcile]\npolicy = vnf_instances:observe\n")
    with pytest.raises(ConfigError, match=r"there is no kind 'vnf_instances'; there are pod, vnf_instance$"):
        reconcile.policies(conf, {"vnf_instance", "pod"})


@pytest.mark.parametrize("line", ["interval = 0", "max_delete_percent = 101", "jitter = 2", "breaker_threshold = 0"])
def test_values_out_of_range_are_refused(configured, line):
    with pytest.raises(cfg.ConfigFileValueError):
        conf = configured(f"[reconcile]\n{line}\n")
        [getattr(conf.reconcile, option.dest) for option in reconcile.OPTS]
