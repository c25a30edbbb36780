# SPDX-License-Identifier: Apache-2.0
"""The options of a JetStream source as a configuration file sets them."""

from __future__ import annotations

from pathlib import Path

import pytest
from oslo_config import cfg

from watcher_sync.sources.nats.source import NatsJetStreamSource


@pytest.mark.parametrize("option", ["run_in_subprocess", "own_process"])
def test_a_file_that_sets_the_option_by_its_former_name_still_counts(option: str, tmp_path: Path) -> None:
    file = tmp_path / "watcher-sync.conf"
    file.write_text(f"[source_dcm]\n{option} = false\n")
    conf = cfg.ConfigOpts()
    conf.register_opts(NatsJetStreamSource.options, group="source_dcm")
    conf([], default_config_files=[str(file)], default_config_dirs=[])
    assert conf.source_dcm.run_in_subprocess is False
