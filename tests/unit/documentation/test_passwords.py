# SPDX-License-Identifier: Apache-2.0
"""No command that the project documents or runs has a password among its arguments, which other users can read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("doc/source", "contrib", "devstack", "etc")
FILES = [
    *ROOT.glob("*.rst"), ROOT / "Makefile",
    *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()),
]  # fmt: skip
TEXTS = {str(path.relative_to(ROOT)): path.read_bytes().decode(errors="replace") for path in FILES}

COMMANDS = {
    "an option": r"--(?:os-)?(?:password|secret|os-token)[ =]\S",
    "the argument of rabbitmqctl": r"rabbitmqctl [^\n]*(?:add_user|change_password|authenticate_user) +[\w.-]+ +[^#\s]",
    "an option of MariaDB": r"\b(?:mysql|mariadb)[\w-]* [^\n]*-p\w",
    "an option of curl": r"\bcurl [^\n]*(?:-u|--user) ?\S+:",
    "a header": r"curl (?:[^\n]*\\\n)*[^\n]*(?:-H|--header) ?\"(?:x-auth-token|authorization): [^\n]*\"",
    "a body": r"curl (?:[^\n]*\\\n)*[^\n]*(?:-d|--data) ?'[^\n]*\"password\"",
    "a task of Ansible": r"- --password\b",
    "the environment": r"\b(?:PGPASSWORD|MYSQL_PWD|OS_PASSWORD|OS_TOKEN)[=:]",
}


@pytest.mark.parametrize("pattern", COMMANDS.values(), ids=COMMANDS)
def test_no_documented_command_has_a_password_in_its_arguments(pattern: str) -> None:
    found = {name: match[0] for name, text in TEXTS.items() for match in re.finditer(pattern, text, re.IGNORECASE)}
    assert found == {}


def test_the_patterns_find_what_they_are_for() -> None:
    examples = (
        "openstack user create --password PASSWORD", "rabbitmqctl add_user watcher_sync PASSWORD",
        "mysql -u root -pPASSWORD", "curl -u anna:PASSWORD", 'curl \\\n -H "X-Auth-Token: $TOKEN"',
        "curl -s \\\n  -d '{\"password\": \"...\"}'", "- --password", "PGPASSWORD=x psql",
    )  # fmt: skip
    for pattern, example in zip(COMMANDS.values(), examples, strict=True):
        assert re.search(pattern, example, re.IGNORECASE)
    for good in ("--password-prompt x", "rabbitmqctl add_user x  # asks", "--token-file x", "-H 'authorization: $T'"):
        assert not any(re.search(pattern, good, re.IGNORECASE) for pattern in COMMANDS.values())
