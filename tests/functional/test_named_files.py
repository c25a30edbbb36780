# SPDX-License-Identifier: Apache-2.0
"""The executables refuse an unusable file that an option names: status 2, one line with the option and the file.

``tests/unit/conf/test_files.py`` has every option.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.engine.driving import Installation

ACCOUNT = {
    "auth_type": "password", "auth_url": "https://127.0.0.1:9/v3", "username": "reader", "password": "secret",
    "project_name": "lab", "user_domain_id": "default", "project_domain_id": "default",
}  # fmt: skip
NOVA = {f"reconcile_nova.{name}": value for name, value in {"enabled": "true", **ACCOUNT}.items()}
KEYSTONE = {f"keystone_authtoken.{name}": value for name, value in ACCOUNT.items()}
WATCH = {"outlet_webhook.enabled": "false", "outlet_watch.auth_strategy": "jwt", "outlet_watch.jwt_accept_any": "true"}


@pytest.mark.parametrize(
    ("program", "arguments", "options", "option"),
    [
        ("watcher-sync-engine", [], NOVA, "reconcile_nova.cafile"),
        ("watcher-sync-manage", ["reconcile", "--dry-run"], NOVA, "reconcile_nova.cafile"),
        ("watcher-sync-manage", ["quarantine", "list"], {}, "DEFAULT.log_config_append"),
        ("watcher-sync-api", [], {"api.auth_strategy": "keystone", **KEYSTONE}, "oslo_policy.policy_file"),
        ("watcher-sync-outlet", [], WATCH, "outlet_watch.jwt_key_files"),
    ],
)
def test_an_executable_names_the_option_and_the_file_before_it_works(
    tmp_path: Path, sqlite_url: str, program: str, arguments: list[str], options: dict[str, str], option: str
) -> None:
    file = tmp_path / "named"
    file.write_bytes(b"\xff\xfe")
    section, _, name = option.partition(".")
    with Installation(tmp_path, sqlite_url, {**options, option: str(file)}) as site:
        site.upgrade()
        done = site.run(program, *arguments)
    assert done.returncode == 2, done.stderr
    assert f"error: [{section}] {name}: {file}: " in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
