# SPDX-License-Identifier: Apache-2.0
"""A file that an option names and that is unusable is one line with the option and the file, before the start.

The options are those of the registry. A new one that names a file needs a row here.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
from oslo_config import cfg
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from tests.migrated import migrate  # noqa: E402
from watcher_sync.assembly import api, engine, process, reconcile  # noqa: E402
from watcher_sync.assembly.store import open_store  # noqa: E402
from watcher_sync.cmd import outlet_services  # noqa: E402
from watcher_sync.conf import opts, strict  # noqa: E402
from watcher_sync.dispatch import load_handlers  # noqa: E402
from watcher_sync.extensions.openstack.capacity.static import StaticProvider  # noqa: E402
from watcher_sync.reconcile.capacity_provider import CapacityError  # noqa: E402
from watcher_sync.reconcile.plugins import load_reconcilers  # noqa: E402

NAMES_A_FILE = re.compile(r"file|path|kubeconfig|config_append|^tls_(cert|key|client_ca)$|_dirs?$")
"""Matches the name of an option that names a file or a folder."""

Start = Callable[[cfg.ConfigOpts], object]


def start_engine(conf: cfg.ConfigOpts) -> None:
    made = engine.assemble(conf)
    context = reconcile.make_context(conf, made.store, load_handlers(conf), made.model.snapshot)
    load_reconcilers(conf, context)
    made.store.dispose()


def source(driver: str, more: str) -> str:
    return f"[engine]\nenabled_sources = {driver}\n[source_{driver}]\ndriver = {driver}\n{more}"


ACCOUNT = """auth_url = https://127.0.0.1:9/v3
username = reader
password = secret
project_name = lab
user_domain_id = default
project_domain_id = default
"""
NATS = "stream = S\n"
KEYSTONE = f"[api]\nauth_strategy = keystone\n[keystone_authtoken]\n{ACCOUNT}"
WATCH = "[outlet_webhook]\nenabled = false\n[outlet_watch]\nauth_strategy = noauth\n"
RABBIT = "transport_url = rabbit://user:secret@127.0.0.1:9/\n[oslo_messaging_rabbit]\nssl = true\n"
KAFKA = "transport_url = kafka://127.0.0.1:9/\n[oslo_messaging_kafka]\nsecurity_protocol = SSL\n"
JWT = "[outlet_webhook]\nenabled = false\n[outlet_watch]\nauth_strategy = jwt\njwt_accept_any = true\n"

USES: dict[str, tuple[Start, str]] = {
    "reconcile_nova": (start_engine, f"[reconcile_nova]\nenabled = true\nauth_type = password\n{ACCOUNT}"),
    "source_federation": (start_engine, source("federation", "endpoint = https://127.0.0.1:9\n")),
    "source_nats_jetstream": (start_engine, source("nats_jetstream", NATS)),
    "source_federation_log": (start_engine, source("federation_log", NATS)),
    "source_kubernetes": (start_engine, source("kubernetes", "")),
    "outlet_nats_jetstream": (
        outlet_services.check,
        f"[outlets]\nenabled = nats_jetstream\n[outlet_nats_jetstream]\ndriver = nats_jetstream\n{NATS}",
    ),
    "outlet_webhook": (outlet_services.check, "[outlet_webhook]\n"),
    "outlet_watch": (outlet_services.check, WATCH),
    "outlet_watch.jwt_key_files": (outlet_services.check, JWT),
    "api.audit_map_file": (api.assemble, "[api]\nauth_strategy = noauth\naudit = true\n"),
    "oslo_policy": (api.assemble, f"{KEYSTONE}[oslo_policy]\n"),
    "oslo_policy.policy_dirs": (outlet_services.check, f"{WATCH}[oslo_policy]\n"),
    "keystone_authtoken": (api.assemble, KEYSTONE),
    "oslo_messaging_rabbit": (start_engine, source("rabbitmq", RABBIT)),
    "oslo_messaging_kafka": (start_engine, source("oslo_messaging", KAFKA)),
    "DEFAULT.log_config_append": (lambda conf: None, "[DEFAULT]\n"),
}
"""Section, or section and option -> what reads the file, and a configuration that names one in its last section."""

PAIRS = {"certfile": "keyfile", "tls_cert_file": "tls_key_file", "tls_cert": "tls_key", "ssl_cert_file": "ssl_key_file",
         "ssl_client_cert_file": "ssl_client_key_file"}  # fmt: skip

ACCEPTED = {
    **{(section, "cafile", "folder"): "OpenSSL's folder of authorities" for section in ("reconcile_nova",
       "keystone_authtoken")},
    **{("oslo_policy", option, fault): "oslo.policy has the default rules" for option, fault in (
        ("policy_file", "empty"), ("policy_dirs", "folder"))},
}  # fmt: skip
"""(Section, option, fault) that prevents no start, and why."""

READ_LATER = {
    "DEFAULT.state_path": "a folder, which is made",
    "DEFAULT.log_file": "the process makes it; test_process has what it cannot make",
    "DEFAULT.log_dir": "test_process has what is no folder",
    "DEFAULT.max_logfile_count": "no file",
    "DEFAULT.max_logfile_size_mb": "no file",
    "source_replay.paths": "a missing one ends the source with its name, and what a file has goes to the quarantine",
    "capacity_provider_static.file": "the last valid version counts; see the test below",
    "oslo_reports.log_dir": "a report that cannot be written there is a line on stderr",
    "oslo_reports.file_event_handler": "it is touched when a report is wanted",
    "oslo_reports.file_event_handler_interval": "no file",
    "oslo_middleware.http_basic_auth_user_file": "of a middleware that the API does not have",
    "oslo_policy.remote_ssl_ca_crt_file": "of a rule of the operator, http:, which oslo.policy checks at its use",
    "oslo_policy.remote_ssl_client_crt_file": "see above",
    "oslo_policy.remote_ssl_client_key_file": "see above",
    "healthcheck.path": "a path of the API",
    "healthcheck.disable_by_file_path": "whether the file exists is what it says",
    "healthcheck.disable_by_file_paths": "see above",
    "healthcheck.enable_by_file_paths": "see above",
    "keystone_authtoken.memcache_tls_cafile": "needs a package that is not installed here; the same check",
    "keystone_authtoken.memcache_tls_certfile": "see above",
    "keystone_authtoken.memcache_tls_keyfile": "see above",
}
"""Option that is not read at the start -> why."""


def options() -> Iterator[tuple[str, str]]:
    """Each option that names a file, with its section."""
    listers = itertools.chain([opts.list_opts], strict._listers({}))
    for group, listed in itertools.chain.from_iterable(lister() for lister in listers):
        for option in listed:
            if NAMES_A_FILE.search(option.dest) and not isinstance(option, cfg.BoolOpt):
                yield getattr(group, "name", group) or "DEFAULT", option.dest


OPTIONS = sorted({(section, option) for section, option in options() if f"{section}.{option}" not in READ_LATER})


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Path, Path]:
    """A certificate and its key."""
    folder = tmp_path_factory.mktemp("pair")
    made = trustme.CA().issue_cert("127.0.0.1")
    made.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    made.private_key_pem.write_to_path(folder / "key.pem")
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def run(tmp_path, capsys):
    """Starts with a configuration: (status, lines on stderr)."""

    def start(start: Start, text: str) -> tuple[int, list[str]]:
        file = tmp_path / "ws.conf"
        database = f"[database]\nconnection = sqlite:///{tmp_path / 'ws.sqlite'}\n"
        file.write_text(f"{database}[DEFAULT]\nstate_path = {tmp_path}\nlog_file = {tmp_path / 'log'}\n{text}")

        def main(argv):
            conf = process.make_conf(argv, prog="test")
            migrate(open_store(conf, checked=False)).dispose()
            start(conf)

        capsys.readouterr()
        handlers = list(logging.getLogger().handlers)
        try:
            return process.run(main, ["--config-file", str(file)]), capsys.readouterr().err.splitlines()
        finally:
            for handler in set(logging.getLogger().handlers) - set(handlers):
                handler.close()
            logging.getLogger().handlers[:] = handlers

    return start


FAULTS = {
    "missing": lambda path: None,
    "folder": lambda path: path.mkdir(),
    "binary": lambda path: path.write_bytes("[Schlüssel]\n".encode("latin-1")),
    "empty": lambda path: path.touch(),
}


def use(section: str, option: str, pair: tuple[Path, Path]) -> tuple[Start, str]:
    """What reads the file of an option, and the configuration without it."""
    found = USES.get(f"{section}.{option}") or USES.get(section)
    assert found is not None, f"[{section}] {option} names a file: who reads it, and when?"
    start, text = found
    for cert, key in PAIRS.items():
        if option in (cert, key):
            other, path = (key, pair[1]) if option == cert else (cert, pair[0])
            text += f"{other} = {path}\n"
    if option == "tls_client_ca":
        text += f"tls_cert = {pair[0]}\ntls_key = {pair[1]}\n"
    return start, text


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("section", "option"), OPTIONS)
def test_an_unusable_file_is_one_line_with_option_and_file(section, option, fault, run, pair, tmp_path) -> None:
    path = tmp_path / "named"
    FAULTS[fault](path)
    start, text = use(section, option, pair)
    status, lines = run(start, f"{text}{option} = {path}\n")
    if (section, option, fault) in ACCEPTED:
        assert (status, lines) == (0, [])
        return
    (line,) = lines
    assert (status, line[: len(f"error: [{section}] {option}: {path}: ")]) == (
        2, f"error: [{section}] {option}: {path}: ",
    )  # fmt: skip


def test_each_row_is_of_an_option() -> None:
    named = {f"{section}.{option}" for section, option in options()}
    ours = {group for group, _ in opts.list_opts() if group != "DEFAULT"}
    assert {row for row in READ_LATER if row.partition(".")[0] in ours} <= named
    assert {f"{section}.{option}" for section, option, _ in ACCEPTED} <= named
    assert {row for row in USES if "." in row} <= named
    assert len(OPTIONS) > 30


@pytest.mark.parametrize("fault", FAULTS)
def test_a_capacity_file_that_is_unusable_is_named_at_each_run(fault, tmp_path) -> None:
    path = tmp_path / "hosts.yaml"
    FAULTS[fault](path)
    conf = cfg.ConfigOpts()
    conf.register_opts(StaticProvider.options, group="capacity_provider_static")
    conf.set_override("file", str(path), group="capacity_provider_static")
    with pytest.raises(CapacityError, match=re.escape(f"{path}: ")):
        list(StaticProvider(conf).capacities(0.0))


def test_a_key_of_another_certificate_is_named(run, pair, tmp_path) -> None:
    key = tmp_path / "other.pem"
    trustme.CA().issue_cert("127.0.0.1").private_key_pem.write_to_path(key)
    status, lines = run(outlet_services.check, f"{WATCH}tls_cert = {pair[0]}\ntls_key = {key}\n")
    assert status == 2
    assert lines == [f"error: [outlet_watch] tls_key: {key}: it has another key for tls_cert = {pair[0]}"]


def test_usable_files_are_accepted(run, pair) -> None:
    start, text = USES["source_nats_jetstream"]
    more = f"tls_ca_file = {pair[0]}\ntls_cert_file = {pair[0]}\ntls_key_file = {pair[1]}\n"
    assert run(start, text + more) == (0, [])
