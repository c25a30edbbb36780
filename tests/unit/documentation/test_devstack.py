# SPDX-License-Identifier: Apache-2.0
"""The DevStack plugin: correct bash, and each phase calls what DevStack has, with options that we have."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from oslo_config import cfg

from watcher_sync.conf import opts

PLUGIN = Path(__file__).parents[3] / "devstack"
FILES = [PLUGIN / "plugin.sh", PLUGIN / "settings"]

DEVSTACK = """
set -eu
DEST=$PWD/dest DATA_DIR=$PWD/data NOVA_CONF=$PWD/nova.conf STACK_USER=$(id -un) ENABLE_DEBUG_LOG_LEVEL=True
KEYSTONE_SERVICE_URI=http://keystone SERVICE_PASSWORD=secret SERVICE_DOMAIN_NAME=Default SERVICE_PROJECT_NAME=service
REGION_NAME=RegionOne SERVICE_HOST=10.0.0.1 SERVICE_LISTEN_ADDRESS=0.0.0.0 SERVICE_TIMEOUT=60 ENABLED_SERVICES=nova
WATCHER_SYNC_CONF_DIR=$PWD/etc WATCHER_SYNC_BIN_DIR=
function call { printf '%s' "$1"; shift; printf '|%s' "$@"; echo; }
for name in define_plugin plugin_requires setup_develop pip_install iniset recreate_database create_service_user \
    get_or_create_service get_or_create_endpoint configure_keystone_authtoken_middleware run_process stop_process \
    echo_summary wait_for_service; do
    eval "function $name { call $name \\"\\$@\\"; }"
done
function enable_service { ENABLED_SERVICES+=,${*// /,}; ENABLED_SERVICES=${ENABLED_SERVICES// /,}; }
function database_connection_url { echo "postgresql://db/$1"; }
function get_notification_url { echo rabbit://broker; }
function get_python_exec_prefix { echo "$PWD/bin"; }
function sudo { if [[ $1 == install ]]; then shift; command install -d "${@: -2}"; else "$@"; fi; }
function die { shift; echo "$*" >&2; exit 1; }
mkdir -p bin; printf '#!/bin/sh\\necho manage\\|$*\\n' > bin/watcher-sync-manage; chmod +x bin/watcher-sync-manage
"""


def phase(folder: Path, *arguments: str) -> list[list[str]]:
    """The calls of a phase, as DevStack runs it."""
    script = f"{DEVSTACK}\nsource {PLUGIN}/settings\nset -- {' '.join(arguments)}\nsource {PLUGIN}/plugin.sh\n"
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return [line.split("|") for line in done.stdout.splitlines()]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_is_correct_bash(file):
    done = subprocess.run(["bash", "-n", file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    if (shellcheck := shutil.which("shellcheck")) is not None:
        # Variables of DevStack and of the settings are assigned elsewhere.
        command = [shellcheck, "--shell=bash", "--exclude=SC2034,SC2154,SC1090,SC1091,SC2086", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_the_phases_install_configure_and_start_both_services(tmp_path):
    assert ["setup_develop", f"{tmp_path}/dest/watcher-sync"] in phase(tmp_path, "stack", "install")
    calls = phase(tmp_path, "stack", "post-config")
    assert ["recreate_database", "watcher_sync"] in calls
    assert ["manage", f"--config-file {tmp_path}/etc/watcher-sync.conf db_sync"] in calls
    assert ["get_or_create_endpoint", "watcher-sync", "RegionOne", "http://10.0.0.1:8790"] in calls
    started = [call for call in phase(tmp_path, "stack", "extra") if call[0] == "run_process"]
    assert [call[1] for call in started] == ["watcher-sync-engine", "watcher-sync-api"]
    assert started[1][-1] == f"OS_WATCHER_SYNC_CONFIG_FILES={tmp_path}/etc/watcher-sync.conf"
    assert [call[0] for call in phase(tmp_path, "unstack")].count("stop_process") == 2
    assert phase(tmp_path, "stack", "pre-install")[-1][0] != "run_process"
    (tmp_path / "etc").mkdir(exist_ok=True)
    phase(tmp_path, "clean")
    assert not (tmp_path / "etc").exists()


def test_every_option_that_it_sets_exists(tmp_path):
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    known = {(str(group), option.name) for group, options in opts.list_opts() for option in options}
    calls = [call for call in phase(tmp_path, "stack", "post-config") if call[0] == "iniset"]
    ours = [(call[2], call[3]) for call in calls if call[1].endswith("watcher-sync.conf")]
    assert ("engine", "enabled_sources") in ours
    of_libraries = ("DEFAULT", "database")
    for group, option in ours:
        if group in of_libraries or (group == "reconcile_nova" and option != "enabled"):
            continue
        assert any(option == name for _, name in known), (group, option)
    assert ("nova.conf", "notifications", "notification_format", "versioned") in {
        (Path(call[1]).name, *call[2:5]) for call in calls
    }
