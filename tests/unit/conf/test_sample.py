# SPDX-License-Identifier: Apache-2.0
"""The sample configuration has every option of this project; ``tox -e genconfig`` makes it."""

from __future__ import annotations

import pathlib
import re

from watcher_sync.conf import opts

SAMPLE = pathlib.Path(__file__).parents[3] / "etc" / "watcher-sync" / "watcher-sync.conf.sample"


def test_the_sample_has_every_option_under_its_group() -> None:
    listed: set[tuple[str, str]] = set()
    group = "DEFAULT"
    for line in SAMPLE.read_text().splitlines():
        if header := re.fullmatch(r"\[(\w+)\]", line):
            group = header[1]
        elif option := re.match(r"#(\w+) = ?", line):
            listed.add((group, option[1]))
    declared = {(group, option.dest) for group, options in opts.own_opts() for option in options}
    assert declared - listed == set()
    assert len(declared) > 50
