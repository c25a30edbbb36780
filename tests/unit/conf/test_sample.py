# SPDX-License-Identifier: Apache-2.0
"""The sample configuration has every option of this project, advanced ones apart; ``tox -e genconfig`` makes it."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

from watcher_sync.conf import cloud_account, opts

ROOT = pathlib.Path(__file__).parents[3]
SAMPLE = ROOT / "etc" / "watcher-sync" / "watcher-sync.conf.sample"
GUIDE = ROOT / "doc" / "source" / "admin"

MOST_SHOWN = 153
"""Options that are not advanced, without those of accounts of Keystone. A commit that shows more says why."""


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


def declared_as_advanced() -> dict[tuple[str, str], bool]:
    """(section of the sample, option) -> whether it is advanced, without those of libraries in other namespaces."""
    return {(section, option.dest): option.advanced for section, options in opts.list_opts() for option in options}


def examples(text: str) -> Iterator[tuple[str, str]]:
    """(section of the sample, option) of each setting in the examples of a page.

    The section of a source or an outlet is the one of its driver.
    """
    section, drivers, found = "", {}, []
    for line in text.splitlines():
        if header := re.fullmatch(r" +\[(\w+)\]", line):
            section = header[1]
        elif line and not line.startswith(" "):
            section = ""
        elif section and (setting := re.fullmatch(r" +(\w+) = ?(.*)", line)):
            found.append((section, setting[1]))
            if setting[1] == "driver":
                drivers[section] = f"{section.partition('_')[0]}_{setting[2]}"
    return ((drivers.get(section, section), option) for section, option in found)


def test_no_option_in_an_example_of_the_administrators_guide_is_advanced() -> None:
    declared = declared_as_advanced()
    found = {each for page in GUIDE.glob("*.rst") for each in examples(page.read_text())} & declared.keys()
    assert len(found) > 100
    assert [setting for setting in sorted(found) if declared[setting]] == []


def test_no_more_options_than_today_are_not_advanced() -> None:
    ((_, of_keystone),) = cloud_account.sample_opts("")
    names = {option.dest for option in of_keystone}
    shown = [key for key, advanced in declared_as_advanced().items() if not advanced and key[1] not in names]
    assert len(shown) <= MOST_SHOWN
