# SPDX-License-Identifier: Apache-2.0
"""The policy in force: the rules of the operations, as the operator's files override them.

oslo.policy ignores a rule of a file that no operation has, and takes an empty value for "allowed". It has the defaults
for a file that is removed, or cut while it is written. So a mistake would open an operation without a line of the log.
Here a mistake is an error at the start. A running process follows its files. Those with a mistake are one line of the
log, and the rules of before stay in force.

No rule replaces a token. A caller without one may what is public by its declaration, if the policy allows it.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import yaml
from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_log import log as logging
from oslo_policy import policy

from watcher_sync.api.http.rules import EVERYBODY
from watcher_sync.conf import files
from watcher_sync.exceptions import ConfigError

LOG = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""At most so often a process asks the file system whether a file changed."""

_GROUP: Final = "oslo_policy"
_TARGETS: Final = ("project_id",)
"""What a rule may ask of an entity."""
_REFERENCE: Final = re.compile(r"%\(([^()]*)\)")


class _FileRule(NamedTuple):
    text: str
    where: str
    """The option and the file."""


class Policy:
    """Decides what callers may. Used by all threads."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        rules: Sequence[policy.RuleDefault],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param rules: the defaults of all operations; no other rule may be in a file.

        :raises ConfigError: a file is unusable, or has a mistake.
        """
        self._conf = conf
        self._rules = rules
        self._public = frozenset(rule.name for rule in rules if rule.check_str == EVERYBODY)
        self._monotonic = monotonic
        self._looking = threading.Lock()
        """Guards the files that were seen, and the replacement of the enforcer."""
        policy.Enforcer(conf)  # registers the options
        self._seen = _state(conf)
        self._enforcer = self._load()
        self._next_look = monotonic() + LOOK_SECONDS

    def allows(self, rule: str, target: Mapping[str, Any], caller: Any, *, known: bool) -> bool:
        """Whether a rule allows a caller an action.

        :param target: what the action is on.
        :param caller: the context of the request.
        :param known: whether the caller has a valid token, or needs none.
        """
        if not known and rule not in self._public:
            return False
        if self._monotonic() >= self._next_look and self._looking.acquire(blocking=False):
            try:
                self._follow()
            finally:
                self._looking.release()
        return bool(self._enforcer.enforce(rule, target, caller))

    def _follow(self) -> None:
        """Apply files that changed, if they have no mistake."""
        self._next_look = self._monotonic() + LOOK_SECONDS
        state = _state(self._conf)
        if state == self._seen:
            return
        self._seen = state
        try:
            enforcer = self._load()
            if self._enforcer.file_rules and not enforcer.file_rules:
                raise ConfigError(f"{_place(self._conf)}: no rule is left; a restart brings the defaults into force")
        except ConfigError as exc:
            LOG.error("The policy was not reloaded, and the rules of before stay in force: %s", exc)
            return
        self._enforcer = enforcer
        LOG.info("Reloaded the policy: %d rules of files", len(enforcer.file_rules))

    def _load(self) -> policy.Enforcer:
        """Load and check the rules of the files.

        :raises ConfigError: a file is unusable, or has a mistake.
        """
        given = _read_files(self._conf)
        enforcer = policy.Enforcer(self._conf)
        enforcer.register_defaults(self._rules)
        try:
            enforcer.load_rules()
        except (ValueError, cfg.Error) as exc:
            raise ConfigError(f"{_place(self._conf)}: {' '.join(str(exc).split())}") from None
        if _state(self._conf) != self._seen or enforcer.file_rules.keys() != given.keys():
            raise ConfigError(f"{_place(self._conf)}: it changed while it was read")
        enforcer.use_conf = False  # the library reads no file again: what it would read is not checked
        if mistakes := [f"{given[name].where}: {mistake}" for name, mistake in _mistakes(enforcer, given)]:
            raise ConfigError("; ".join(mistakes))
        return enforcer


def _place(conf: cfg.ConfigOpts) -> str:
    return f"[{_GROUP}] policy_file: {conf.find_file(conf[_GROUP].policy_file) or conf[_GROUP].policy_file}"


def _paths(conf: cfg.ConfigOpts) -> Iterator[tuple[str, str]]:
    """(option, path) of each file, in the order in which they override each other.

    :raises ConfigError: what an option names does not exist, or is no folder.
    """
    group = conf[_GROUP]
    if (path := conf.find_file(group.policy_file)) is not None:
        yield "policy_file", path
    else:
        _require_default(conf, "policy_file", group.policy_file)
    for name in group.policy_dirs:
        folder = conf.find_file(name)
        if folder is None:
            _require_default(conf, "policy_dirs", name)
        elif not os.path.isdir(folder):
            raise ConfigError(f"[{_GROUP}] policy_dirs: {folder}: it is no folder")
        else:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            yield from (("policy_dirs", e.path) for e in entries if e.is_file() and not e.name.startswith("."))


def _require_default(conf: cfg.ConfigOpts, option: str, name: str) -> None:
    """:raises ConfigError: the operator names the file that does not exist."""
    found = conf.get_location(option, _GROUP)
    if found is not None and found.location.is_user_controlled:
        raise ConfigError(f"[{_GROUP}] {option}: {name}: no such file or folder")


def _state(conf: cfg.ConfigOpts) -> tuple[Any, ...]:
    """What is different after any change of a file, such as its replacement by an older one."""
    group, found = conf[_GROUP], []
    for name in (group.policy_file, *group.policy_dirs):
        path = conf.find_file(name)
        paths = [] if path is None else [path]
        with contextlib.suppress(OSError):
            if path is not None and os.path.isdir(path):
                paths += sorted(entry.path for entry in os.scandir(path))
        for each in paths:
            with contextlib.suppress(OSError):
                status = os.stat(each)
                found.append((each, status.st_ino, status.st_size, status.st_ctime_ns))
    return tuple(found)


def _read_files(conf: cfg.ConfigOpts) -> dict[str, _FileRule]:
    """The rules of all files. The last one of a name counts.

    :raises ConfigError: a file is no mapping of names to texts.
    """
    given: dict[str, _FileRule] = {}
    for option, path in _paths(conf):
        text = files.read_text(_GROUP, option, path, may_be_empty=True)
        where = f"[{_GROUP}] {option}: {path}"
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            rules = policy.parse_file_contents(text)
        except (yaml.YAMLError, ValueError) as exc:
            raise ConfigError(f"{where}: it is no YAML: {' '.join(str(exc).split())}") from None
        if node is not None and not (isinstance(node, yaml.MappingNode) and isinstance(rules, dict)):
            raise ConfigError(f"{where}: it is no mapping of rules")
        names = [key.value for key, _ in node.value] if node is not None else []
        if twice := [name for name in rules if names.count(name) > 1]:
            raise ConfigError(f"{where}: it has {twice[0]!r} twice")
        for name, value in rules.items():
            if not isinstance(value, str):  # the library takes an empty list, "no" and nothing for "allowed"
                raise ConfigError(f"{where}: {name}: {value!r} is no text")
            given[name] = _FileRule(value, where)
    return given


def _mistakes(enforcer: policy.Enforcer, given: Mapping[str, _FileRule]) -> Iterator[tuple[str, str]]:
    """(rule, what is wrong) for each mistake of the files.

    A name that no operation has is a mistake, unless a rule in force refers to it.
    """
    checks: Mapping[str, Any] = enforcer.rules
    deprecated = {each.deprecated_rule.name for each in enforcer.registered_rules.values() if each.deprecated_rule}
    known = {*enforcer.registered_rules, *deprecated}
    references = {name: _references(check) for name, check in checks.items()}
    used = _reached(references, known)
    for name, rule in given.items():
        if name not in used:
            yield name, _unknown(str(name), known)
            continue
        for mistake in _mistakes_of(checks[name], rule.text):
            yield name, f"{name}: {mistake}"
        for other in references[name]:
            if other not in checks:
                yield name, f"{name}: {_unknown(other, checks)}"
        if name in _reached(references, references[name]):
            yield name, f"{name}: it refers to itself"


def _mistakes_of(check: Any, text: str) -> Iterator[str]:
    """What is wrong in one rule."""
    refused = sum(str(leaf) == "!" for leaf in _leaves(check))
    if refused > text.replace("(", " ").replace(")", " ").split().count("!"):
        yield f"{text!r} cannot be understood"  # the library takes it for "refused", and "not" reverses that
    for name in _REFERENCE.findall(text):
        if name not in _TARGETS:
            yield f"nothing has a {name!r}; there is {', '.join(_TARGETS)}"
    attributes = oslo_context.RequestContext().to_policy_values()
    of_caller: Any = type(policy.RuleDefault("", "attribute:value").check)
    for leaf in _leaves(check):
        if type(leaf) is of_caller and leaf.kind.split(".")[0] not in attributes and not _is_literal(leaf.kind):
            yield f"a caller has no {leaf.kind!r}"


def _leaves(check: Any) -> Iterator[Any]:
    """The checks that a check is made of."""
    if isinstance(check, policy.NotCheck):
        yield from _leaves(check.rule)
    elif isinstance(check, policy.AndCheck | policy.OrCheck):
        for each in check.rules:
            yield from _leaves(each)
    else:
        yield check


def _references(check: Any) -> list[str]:
    """The names of the rules that a check refers to."""
    return [leaf.match for leaf in _leaves(check) if isinstance(leaf, policy.RuleCheck)]


def _is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return True


def _reached(references: Mapping[str, Sequence[str]], names: Any) -> set[str]:
    """The names, and all to which their rules refer."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += references.get(name, ())
    return found


def _unknown(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, known, n=1) or [each for each in known if each.lower() == name.lower()]
    return f"there is no rule {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
