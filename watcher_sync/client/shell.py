# SPDX-License-Identifier: Apache-2.0
"""The application ``watcher-sync``: it chooses the server and the credentials, and prints an error in one line.

``--endpoint`` (``WATCHER_SYNC_ENDPOINT``) names the server. openstacksdk reads the credentials, as for every OpenStack
client:

* ``--os-cloud`` and clouds.yaml,
* ``--os-auth-type`` with the options of that type,
* the same as ``OS_*`` in the environment.

With credentials and without an endpoint, the service catalog names the server. Without credentials the client sends no
token. The application sends no request before a command needs it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import logging
import os
import sys
from typing import Any

from cliff.app import App
from cliff.commandmanager import CommandManager
from keystoneauth1 import adapter, loading, noauth
from keystoneauth1 import exceptions as keystone
from stevedore import ExtensionManager

from watcher_sync.accounts import lack_of
from watcher_sync.client.client import Client
from watcher_sync.client.commands.base import one_line_errors
from watcher_sync.client.errors import NotConfigured
from watcher_sync.client.terminal import plain
from watcher_sync.client.transport import SERVICE_TYPE

_OWN = "watcher_sync.cli"
_PLUGIN = "openstack.watcher_sync.v1"
_PLUGIN_NAME = "watcher-sync "

_TIMEOUT_SECONDS = 30.0


def commands() -> CommandManager:
    """The commands: those of the plugin of OpenStackClient, which have its name before their own, and the demo.

    None is imported. The manager itself would import all of them.
    """
    manager = CommandManager("")
    for group in (_PLUGIN, _OWN):
        listing: ExtensionManager[Any] = ExtensionManager.make_test_instance([], group)  # loads nothing by itself
        for entry in listing.list_entry_points():
            manager.commands[entry.name.replace("_", " ").removeprefix(_PLUGIN_NAME)] = entry
    return manager


class ClientManager:
    """Holds the client of the commands. OpenStackClient has a class with the same attribute."""

    def __init__(self, options: argparse.Namespace, cloud: Cloud | None) -> None:
        self._options = options
        self._cloud = cloud
        self._client: Client | None = None

    @property
    def watcher_sync(self) -> Client:
        """The client, made at the first access.

        :raises NotConfigured: when neither the options nor the environment name a server.
        """
        if self._client is None:
            options = self._options
            if self._cloud is not None:
                found = self._cloud.adapter(options)
            elif options.endpoint:
                session = loading.load_session_from_argparse_arguments(options, auth=noauth.NoAuth(options.endpoint))
                found = adapter.Adapter(session, endpoint_override=options.endpoint)
            else:
                raise NotConfigured(
                    "no server: name it by --endpoint or WATCHER_SYNC_ENDPOINT, "
                    "or give credentials by --os-cloud, --os-auth-type or OS_*"
                )
            self._client = Client(found, timeout=float(options.timeout or _TIMEOUT_SECONDS))
        return self._client


class Cloud:
    """The credentials from the command line, the environment or clouds.yaml."""

    def __init__(self, argv: list[str]) -> None:
        # Imported here: the import takes longer than all others, and a command without credentials does not need it.
        from openstack import exceptions
        from openstack.config import OpenStackConfig

        class OwnOptions(OpenStackConfig):
            """Has no option that the type does not know: without a named cloud, those of the only one are there."""

            def auth_config_hook(self, config: dict[str, Any]) -> dict[str, Any]:
                options = loading.get_plugin_options(config["auth_type"])
                known = {each.dest for option in options for each in (option, *option.deprecated)}
                return {**config, "auth": {name: value for name, value in config["auth"].items() if name in known}}

        self._errors = (exceptions.SDKException, keystone.ClientException)
        is_typed = any(word.partition("=")[0] == "--os-auth-type" for word in argv)
        try:
            self._config = OwnOptions() if is_typed else OpenStackConfig()
        except self._errors as exc:
            raise NotConfigured(" ".join(str(exc).split())) from None

    def register(self, parser: argparse.ArgumentParser, argv: list[str]) -> None:
        """Adds the options of the authentication type that ``argv`` or the environment names.

        :raises NotConfigured: when there is no such type or no such cloud.
        """
        try:
            self._config.register_argparse_arguments(parser, list(argv), service_keys=[SERVICE_TYPE])
        except self._errors as exc:
            raise NotConfigured(" ".join(str(exc).split())) from None

    def adapter(self, options: argparse.Namespace) -> adapter.Adapter:
        """Makes the adapter of the chosen cloud.

        :raises NotConfigured: when the authentication lacks an option, or has one that its type does not know.
        """
        try:
            region = self._region(options)
            if lack := lack_of(region):
                raise NotConfigured(lack)
            return adapter.Adapter(
                region.get_session(),
                service_type=SERVICE_TYPE,
                interface=region.get_interface(SERVICE_TYPE),
                region_name=region.get_region_name(SERVICE_TYPE),
                endpoint_override=options.endpoint or region.get_endpoint(SERVICE_TYPE),
                default_microversion=region.get_default_microversion(SERVICE_TYPE),
            )
        except self._errors as exc:
            raise NotConfigured(" ".join(str(exc).split())) from None

    def _region(self, options: argparse.Namespace) -> Any:
        try:
            return self._config.get_one(argparse=options)
        except TypeError as exc:  # of the constructor of the type
            raise NotConfigured(f"the authentication has an option that its type does not know: {exc}") from None


def _needs_cloud(argv: list[str]) -> bool:
    """Whether the command line or the environment gives credentials, or the user asks for help."""
    given = any(word.startswith("--os") or word in ("help", "-h", "--help") for word in argv)
    return given or any(os.environ.get(name) for name in ("OS_CLOUD", "OS_AUTH_TYPE", "OS_AUTH_URL"))


class Shell(App):
    """``watcher-sync``."""

    NAME = "watcher-sync"
    DEFAULT_VERBOSE_LEVEL = 0
    """Log lines of libraries are no output of a command; -v and -vv show them."""

    def __init__(self, argv: list[str]) -> None:
        """:param argv: the command line without the program. The set of options depends on it."""
        self._argv = argv
        self._cloud = Cloud(argv) if _needs_cloud(argv) else None
        self.client_manager: ClientManager | None = None
        super().__init__(
            description="watcher_sync: one live, ordered, persisted model of a cloud",
            version=importlib.metadata.version("watcher-sync"),
            command_manager=commands(),
            deferred_help=True,
        )

    def build_option_parser(
        self, description: str | None, version: str | None, argparse_kwargs: dict[str, Any] | None = None
    ) -> argparse.ArgumentParser:
        """Makes the parser of the options that precede the command."""
        # Without abbreviations: else argparse reads an option of a command as the abbreviation of one of these.
        parser = super().build_option_parser(description, version, {"allow_abbrev": False, **(argparse_kwargs or {})})
        one_line_errors(parser)
        parser.add_argument(
            "--endpoint",
            metavar="URL",
            default=os.environ.get("WATCHER_SYNC_ENDPOINT"),
            help="root of the API, such as http://127.0.0.1:8790 (WATCHER_SYNC_ENDPOINT)",
        )
        if self._cloud is not None:
            self._cloud.register(parser, self._argv)
        else:
            loading.register_session_argparse_arguments(parser)
        parser.set_defaults(timeout=None)
        return parser

    def initialize_app(self, argv: list[str]) -> None:
        """Runs before a command."""
        if not self.options.verbose_level and not self.options.debug:
            # The command's error contains the text of these warnings.
            logging.getLogger("keystoneauth").setLevel(logging.ERROR)
        self.client_manager = ClientManager(self.options, self._cloud)

    def run_subcommand(self, argv: list[str]) -> int:
        """Runs one command. An unknown command is a usage error, which is printed in one line."""
        try:
            self.command_manager.find_command(argv)
        except ValueError:
            print(f"error: {self._unknown(argv)}", file=sys.stderr)
            return 2
        return super().run_subcommand(argv)

    def _unknown(self, argv: list[str]) -> str:
        """Says what the user may have meant by a command that does not exist."""
        words = list(itertools.takewhile(lambda word: not word.startswith("-"), argv))
        verb = next((word for word in words[1:] if word in ("list", "show")), "")
        noun = "_".join(words[: words.index(verb)]) if verb else ""
        like = ", ".join(self.get_fuzzy_matches(words[0])[:8]) if words else ""
        hints = [f"similar: {like}" if like else "", f"for a kind of a plugin: entity {verb} {noun}" if verb else ""]
        return f"no command {' '.join(argv[:3])!r}; {'; '.join(filter(None, hints)) or 'see --help'}"

    def interact(self) -> None:
        """Refuses the interactive mode, which this application does not have."""
        print("error: no command given; see watcher-sync --help", file=sys.stderr)
        sys.exit(2)


def run(argv: list[str]) -> int:
    """Runs one command line.

    :param argv: the command line without the program.
    :returns: the exit status: 0 done, 1 failed, 2 usage error.
    """
    try:
        shell = Shell(argv)
    except NotConfigured as exc:
        print(f"error: {plain(str(exc))}", file=sys.stderr)
        return 2
    return shell.run(argv)
