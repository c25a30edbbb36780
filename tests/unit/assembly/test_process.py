# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a configuration is one line that names it, and the exit status says whose fault it is."""

from __future__ import annotations

import logging
import os
import threading

import pytest
from oslo_config import cfg
from oslo_service import backend

from tests.waiting import PATIENCE_SECONDS, deadline

backend.init_backend(backend.BackendType.THREADING)

from watcher_sync.assembly import process  # noqa: E402
from watcher_sync.cmd.manage import add_commands  # noqa: E402
from watcher_sync.conf import opts, strict  # noqa: E402
from watcher_sync.exceptions import ConfigError, DatabaseUnavailable  # noqa: E402
from watcher_sync.transports.rabbitmq.broker import read_broker  # noqa: E402


@pytest.fixture
def run(tmp_path, capsys):
    """Reads these files as an executable would: (status, stderr, the configuration)."""

    def read(*texts, folder=None, work=None):
        arguments, found = [], []
        for number, text in enumerate(texts):
            path = tmp_path / f"{number}.conf"
            path.write_text(text)
            arguments += ["--config-file", str(path)]
        if folder is not None:
            (tmp_path / "conf.d").mkdir()
            for name, text in folder.items():
                (tmp_path / "conf.d" / name).write_text(text)
            arguments += ["--config-dir", str(tmp_path / "conf.d")]

        def main(argv):
            found.append(process.make_conf(argv, prog="test"))
            return work() if work is not None else None

        status = process.run(main, arguments)
        return status, capsys.readouterr().err, found[0] if found else None

    return read


def test_the_section_of_an_enabled_outlet_is_known_without_a_driver(run):
    """The outlet says that the driver is missing."""
    status, error, _ = run("[outlets]\nenabled = log, bus\n[outlet_bus]\npartition = north\n")
    assert (status, error) == (0, "")


def test_a_good_configuration_is_read_with_the_options_of_the_libraries(run):
    status, _, conf = run("[DEFAULT]\ndebug = false\n[engine]\nbatch_size = 7\n[database]\nmax_retries = 3\n")
    assert (status, conf.engine.batch_size) == (0, 7)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[engine]\nbatch_sice = 5\n", ["unknown option batch_sice in [engine]", "did you mean batch_size?", "0.conf"]),
        ("[engin]\nbatch_size = 5\n", ["unknown section [engin]", "did you mean engine?"]),
        ("[outlet_wacth]\nport = 1\n", ["unknown section [outlet_wacth]", "did you mean outlet_watch?"]),
        ("[engine]\nzzz = 5\n", ["unknown option zzz in [engine]"]),
        ("[DEFAULT]\nstate_pth = /x\n", ["unknown option state_pth in [DEFAULT]", "did you mean state_path?"]),
        ("[engine]\nbatch_size = many\n", ["0.conf: [engine] batch_size: it has to be a number, not 'many'\n"]),
        ("[engine]\nbatch_size = 0\n", ["0.conf: [engine] batch_size: "]),
        ("[api]\nport = 99999\n", ["0.conf: [api] port: Should be less than or equal to 65535"]),
        ("[DEFAULT]\nmax_logfile_count = x\n", ["0.conf: [DEFAULT] max_logfile_count: it has to be a number, not 'x'"]),
        ("[DEFAULT]\nlog_file = /moon/x\n", ["error: [DEFAULT] log_file or log_dir: /moon/x: No such file"]),
        ("[DEFAULT]\nlog_config_append = /moon\n", ["error: [DEFAULT] log_config_append: /moon: No such file"]),
        ("[engine\nbatch_size = 5\n", ["0.conf"]),
        ("[source_a]\ndriver = oslo_messaging\ntransport_ulr = x\n", ["transport_ulr in [source_a]", "transport_url"]),
    ],
)
def test_a_mistake_is_status_2_and_one_line_that_names_it(run, text, words):
    status, err, _ = run(text)
    assert status == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert all(word in err for word in words), err


def test_a_password_with_a_dollar_is_not_printed(run):
    status, err, _ = run("[database]\nconnection = postgresql://u:abc$def@h/d\n")
    assert (status, err) == (2, "error: [database] connection: it has a $ that names no option; write $$ for a $\n")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["model", "dmp"], "there is no 'dmp'; did you mean dump?"),
        (["dbsync"], "there is no 'dbsync'; did you mean db_sync?"),
        (["zzz"], "argument command: invalid choice: 'zzz' (choose from "),
        (["db_sync", "--config-file", "x"], "unrecognized arguments: --config-file x; it precedes the command"),
        (["db_sync", "--nonsense"], "unrecognized arguments: --nonsense; see test --help"),
        ([], "the following arguments are required: command; see test --help"),
    ],
)
def test_a_wrong_command_line_is_status_2_and_one_line(capsys, words, error):
    commands = cfg.SubCommandOpt("command", handler=add_commands)
    status = process.run(lambda argv: process.make_conf(argv, prog="test", cli_opts=[commands]), words)
    err = capsys.readouterr().err
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith(f"error: {error}")


def test_the_login_of_the_api_at_keystone_is_known(run):
    login = (
        "auth_type = password\nauth_url = https://keystone:5000\nusername = ws\npassword = x\nproject_name = service\n"
    )
    assert run(f"[keystone_authtoken]\n{login}user_domain_name = Default\nproject_domain_name = Default\n")[0] == 0
    status, err, _ = run("[keystone_authtoken]\nauth_type = password\nusrname = ws\n")
    assert (status, "unknown option usrname in [keystone_authtoken]; did you mean username?" in err) == (2, True)


def test_an_option_that_a_library_removed_is_ignored_with_a_warning(run, caplog):
    text = "[oslo_messaging_rabbit]\nheartbeat_in_pthread = false\namqp_durable_queues = true\n"
    assert run(text)[0] == 0
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.endswith("0.conf: option heartbeat_in_pthread in [oslo_messaging_rabbit] has no effect and is ignored")
    # The URL of a source may have it, too.
    url = "rabbit://h/?heartbeat_in_pthread=false"
    assert read_broker("source_nova", url, cfg.ConfigOpts()).options["ssl"] is False


def test_files_of_a_folder_are_checked_too(run):
    status, err, _ = run(folder={"10-good.conf": "[engine]\nbatch_size = 5\n", "20-bad.conf": "[engine]\nx = 1\n"})
    assert (status, "20-bad.conf: unknown option x" in err) == (2, True)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_source_may_be_configured_in_two_files(run, order):
    texts = ["[source_a]\ndriver = oslo_messaging\n", "[source_a]\ntransport_url = fake:/\n"]
    assert run(*(texts[i] for i in order))[0] == 0


def test_a_source_without_a_driver_is_left_to_where_sources_are_made(run):
    assert run("[source_a]\ntransport_url = fake:/\n")[0] == 0


def test_a_file_that_is_not_there_is_status_2(capsys):
    assert process.run(lambda a: process.make_conf(a, prog="t") and 0, ["--config-file", "/none/x.conf"]) == 2
    assert "/none/x.conf" in capsys.readouterr().err


def test_work_that_failed_is_status_1_and_one_line_without_a_traceback(run):
    def work():
        raise DatabaseUnavailable("connection refused")

    assert run("", work=work)[:2] == (1, "error: connection refused\n")


def database_conf(**options):
    conf = cfg.ConfigOpts()
    opts.register_database(conf)
    conf([], default_config_files=[])
    for name, value in options.items():
        conf.set_override(name, value, group="database")
    return conf


def test_a_service_that_is_started_before_its_database_waits_for_it():
    answers = iter([DatabaseUnavailable("refused"), DatabaseUnavailable("refused"), "engine"])
    waits = []

    def make():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert process.when_the_database_answers(database_conf(), make, wait=waits.append) == "engine"
    assert waits == [1.0, 1.0]


@pytest.mark.parametrize("retries", [0, 3])
def test_a_database_that_does_not_come_is_an_error_after_max_retries(retries):
    attempts = []

    def make():
        attempts.append(1)
        raise DatabaseUnavailable("refused")

    with pytest.raises(DatabaseUnavailable):
        process.when_the_database_answers(database_conf(max_retries=retries), make, wait=lambda _: None)
    assert len(attempts) == retries + 1


def test_a_wrong_schema_is_not_waited_for():
    def make():
        raise ConfigError("the schema is old")

    with pytest.raises(ConfigError):
        process.when_the_database_answers(database_conf(), make, wait=lambda _: pytest.fail("it waits"))


def test_the_works_own_status_is_the_exit_status(run):
    assert run("", work=lambda: 1)[0] == 1


def test_an_interrupt_is_status_130(run):
    def work():
        raise KeyboardInterrupt

    assert run("", work=work)[0] == 130


def test_what_is_wrong_in_a_changed_file_is_said_and_the_configuration_in_use_is_left_alone(run, tmp_path):
    _, _, conf = run("[reconcile]\ninterval = 60\n")
    process.check_again(conf)
    for line, words in (
        ("interval = 0", "Should be greater than or equal to 1"),
        ("intervall = 5", "did you mean interval"),
        ("[DEFAULT]\ndebug = perhaps", "debug: Invalid Boolean value"),
        ("[engine", "0.conf"),
    ):
        (tmp_path / "0.conf").write_text(f"[reconcile]\n{line}\n")
        with pytest.raises(ConfigError, match=words):
            process.check_again(conf)
    (tmp_path / "0.conf").unlink()
    with pytest.raises(ConfigError, match=r"0\.conf"):
        process.check_again(conf)
    assert conf.reconcile.interval == 60


def test_a_wrong_value_of_a_library_s_option_is_said_at_once(run):
    status, err, _ = run("[DEFAULT]\ndebug = perhaps\n")
    assert (status, err) == (2, "error: argument --debug: Invalid Boolean value: perhaps\n")


def test_a_file_that_was_written_during_the_start_is_read_again(run, tmp_path):
    """A SIGHUP may have come then, which the process ignored."""
    _, _, conf = run("[engine]\nbatch_size = 7\n")
    path = tmp_path / "0.conf"
    path.write_text("[engine]\nbatch_size = 8\n")
    written = path.stat().st_mtime
    process.reload_if_written(conf, written + 60)
    assert conf.engine.batch_size == 7, "it was not written since the start"
    process.reload_if_written(conf, written - 60)
    assert conf.engine.batch_size == 8


def test_a_file_that_is_read_again_without_a_request_is_logged_only_if_it_changed_an_option(
    run, tmp_path, caplog, monkeypatch
):
    _, _, conf = run("[engine]\nbatch_size = 7\n")
    caplog.set_level("INFO", "watcher_sync")
    monkeypatch.setattr(logging.getLogger("watcher_sync.assembly.process"), "handlers", [caplog.handler])
    path = tmp_path / "0.conf"
    process.reload_if_written(conf, path.stat().st_mtime)
    assert not caplog.messages
    process.reload(conf)
    path.write_text("[engine]\nbatch_size = 8\n")
    process.reload_if_written(conf, path.stat().st_mtime)
    assert caplog.messages == [
        f"Reloaded the configuration: {what}" for what in ("nothing changed", "engine.batch_size")
    ]


def test_a_wrong_file_changes_nothing_when_it_is_read_again(run, tmp_path):
    _, _, conf = run("[engine]\nbatch_size = 7\n")
    (tmp_path / "0.conf").write_text("[engine]\nbatch_size = none\n")
    assert process.reload(conf) is None
    assert conf.engine.batch_size == 7


def test_what_a_thread_reads_during_a_reload_is_forgotten_after_it(run, tmp_path):
    """oslo.config caches each value, and empties the cache before it reads the files."""
    _, _, conf = run("[reconcile]\ninterval = 600\n")
    path = tmp_path / "0.conf"
    path.write_text("[reconcile]\ninterval = 1\n")
    seen = []

    def read_while_the_files_are_read():
        with path.open("w") as pipe:  # returns when the other end is opened
            seen.append(conf.reconcile.interval)
            pipe.write("[reconcile]\ninterval = 1\n")

    thread = threading.Thread(target=read_while_the_files_are_read)

    def check(_checked):
        path.unlink()
        os.mkfifo(path)
        thread.start()

    assert process.reload(conf, check) == ["reconcile.interval"]
    thread.join(deadline(PATIENCE_SECONDS))
    assert (seen, conf.reconcile.interval) == ([600], 1)


@pytest.mark.parametrize("how", ["--config-file", "--config-dir"])
def test_a_file_that_is_not_utf8_is_status_2_and_shows_the_file_and_the_place(tmp_path, capsys, how):
    good, path = tmp_path / "a.conf", tmp_path / "latin.conf"
    good.write_text("[DEFAULT]\n")
    path.write_bytes("[DEFAULT]\n# Schlüssel der API\n".encode("latin-1"))
    argv = [f"--config-dir={tmp_path}"] if how == "--config-dir" else [f"--config-file={p}" for p in (good, path)]
    assert process.run(lambda argv: process.make_conf(argv, prog="test") and 0, argv) == 2
    assert capsys.readouterr().err == f"error: {path} is not UTF-8 near b'[DEFAULT]\\n# Schl\\xfc'\n"


def test_a_file_that_only_the_locale_can_read_is_named_by_the_check_of_its_names(tmp_path):
    path = tmp_path / "latin.conf"
    path.touch()
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[str(path)])
    path.write_bytes("[DEFAULT]\n# Schlüssel\n".encode("latin-1"))  # which oslo.config reads in the locale's encoding
    with pytest.raises(ConfigError, match=str(path)):
        strict.check(conf)
