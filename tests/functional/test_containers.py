# SPDX-License-Identifier: Apache-2.0
"""The image and the example for Kubernetes: built and rendered where the tools are there, and read everywhere."""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from oslo_config import cfg

from tests.source_copy import copy_source
from tests.waiting import deadline
from watcher_sync.api.edge.proxies import client_address
from watcher_sync.conf import opts
from watcher_sync.wsgi import gunicorn

_ROOT = Path(__file__).parents[2]
_CONTAINERFILE = _ROOT / "etc" / "container" / "Containerfile"
_OPTIONS = _ROOT / "etc" / "kubernetes" / "kubernetes.conf"
_NGINX = (_ROOT / "etc" / "nginx" / "watcher-sync-api.conf").read_text()
_SIZING = (_ROOT / "doc" / "source" / "admin" / "sizing.rst").read_text()


def instructions() -> list[tuple[str, str]]:
    """Name and arguments of each instruction, with continued lines joined."""
    lines = (line for line in _CONTAINERFILE.read_text().splitlines() if not line.startswith("#"))
    text = "\n".join(lines).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in text.splitlines() if line.strip()]


def last_stage() -> dict[str, str]:
    """Instruction -> its last arguments, in the stage that becomes the image."""
    found = instructions()
    start = max(number for number, (name, _) in enumerate(found) if name == "FROM")
    return dict(found[start:])


def test_every_base_has_a_tag_and_nothing_is_fetched_unverified() -> None:
    bases = [arguments.split()[0] for name, arguments in instructions() if name == "FROM"]
    assert all(re.fullmatch(r"python:\d+\.\d+-slim", base) for base in bases)
    assert "ADD" not in dict(instructions())
    assert not [a for name, a in instructions() if name == "RUN" and ("curl" in a or "wget" in a)]


def test_the_image_runs_as_an_ordinary_user_and_says_whether_it_is_healthy() -> None:
    stage = last_stage()
    user = stage["USER"].partition(":")[0]
    assert user.isdigit()
    assert int(user) > 0
    assert "CMD [" in stage["HEALTHCHECK"]
    assert stage["CMD"].startswith("["), "a shell would not pass on signals"
    assert stage["STOPSIGNAL"] == "SIGTERM"


def test_the_image_is_built_where_a_builder_is_there(tmp_path: Path) -> None:
    builder = next((name for name in ("podman", "docker") if _works(name)), None)
    if builder is None:
        pytest.skip("neither podman nor a docker daemon is there: the file is linted only")
    (tmp_path / "dist").mkdir()
    shutil.copy(_ROOT / "constraints.txt", tmp_path)
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path / "dist"]
    subprocess.run([*wheel, copy_source(tmp_path / "source")], check=True, timeout=deadline(300))
    subprocess.run([builder, "build", "--file", _CONTAINERFILE, "--tag", "watcher-sync:test", tmp_path], check=True)
    shown = subprocess.run(
        [builder, "run", "--rm", "watcher-sync:test", "watcher-sync-engine", "--version"],
        check=True, capture_output=True, text=True, timeout=deadline(60),
    )  # fmt: skip
    assert shown.stdout.strip()


def _works(builder: str) -> bool:
    return shutil.which(builder) is not None and not subprocess.run([builder, "info"], capture_output=True).returncode


@pytest.fixture(scope="module")
def rendered() -> list[dict[str, Any]]:
    """The resources of the example as kubectl renders them."""
    kubectl = os.environ.get("WATCHER_SYNC_TEST_KUBECTL") or shutil.which("kubectl")
    assert kubectl, "kubectl is missing: python -m tests.services.ensure installs the package kubernetes-client"
    command = [kubectl, "kustomize", str(_ROOT / "etc" / "kubernetes")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=deadline(60))
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def pods(resources: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The specifications of all pods."""
    for resource in resources:
        if "template" in resource.get("spec", {}):
            yield resource["spec"]["template"]["spec"]


def named(resources: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The one resource of a kind and a name without the prefix."""
    (found,) = (r for r in resources if (r["kind"], r["metadata"]["name"]) == (kind, f"watcher-sync-{name}"))
    return found


def test_the_example_has_all_services_and_no_pod_has_more_rights_than_it_needs(rendered: list[dict[str, Any]]) -> None:
    assert sorted(f"{r['kind']} {r['metadata']['name']}" for r in rendered if "template" in r.get("spec", {})) == [
        "Deployment watcher-sync-api",
        "Deployment watcher-sync-engine",
        "Deployment watcher-sync-outlet",
        "Job watcher-sync-db-sync",
    ]
    for pod in pods(rendered):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        (container,) = pod["containers"]
        assert re.fullmatch(r"watcher-sync:\d+\.\d+\.\d+", container["image"])
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert "secretKeyRef" not in str(container), "an environment is inherited, and is in reports of crashes"


def test_the_ports_of_the_example_are_those_of_the_documented_options(rendered: list[dict[str, Any]]) -> None:
    options = _OPTIONS.read_text()
    ports = {p["containerPort"] for pod in pods(rendered) for p in pod["containers"][0].get("ports", [])}
    documented_ports = {int(port) for port in re.findall(r"port = (\d+)", options)}
    defaults = {o.default for group, found in opts.list_opts() for o in found if o.name == "port" and o.default}
    assert documented_ports < ports
    assert ports - documented_ports <= defaults


@pytest.mark.rare
def test_kubernetes_accepts_every_resource(rendered: list[dict[str, Any]]) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for resource in rendered:
        kubernetes_validate.validate(resource, "1.33", strict=True)


def test_the_options_of_the_example_exist_and_the_services_read_them_before_the_secret(
    rendered: list[dict[str, Any]],
) -> None:
    conf = cfg.ConfigOpts()
    for group, found in opts.list_opts():
        conf.register_opts(found, group=group)
    for section, _, name in re.findall(r"\[(\w+)\]\n(#.*\n)*((?:\w+ = .*\n)+)", _OPTIONS.read_text()):
        for line in name.splitlines():
            assert line.partition(" = ")[0] in conf[section]
    files = [f"/etc/watcher-sync/{name}.conf" for name in ("kubernetes", "watcher-sync")]
    for name in ("engine", "outlet", "api"):
        pod = named(rendered, "Deployment", name)["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        given = [word.partition("=")[2] for word in container["command"] if word.startswith("--config-file=")]
        assert (given or container["env"][0]["value"].split(";")) == files
        sources = pod["volumes"][0]["projected"]["sources"]
        assert [s.get("configMap", s.get("secret"))["name"].split("-")[:2] for s in sources] == [
            ["watcher", "sync"]
        ] * 2


def test_the_limits_of_failed_logins_are_those_of_each_user_behind_the_proxy() -> None:
    (network,) = re.findall(r"^trusted_proxies = (.*)$", _OPTIONS.read_text(), re.MULTILINE)
    proxies = [ipaddress.ip_network(network)]
    for user in ("192.0.2.7", "198.51.100.9"):
        environ = {"REMOTE_ADDR": str(proxies[0][260]), "HTTP_X_FORWARDED_FOR": f"203.0.113.1, {user}"}
        assert client_address(environ, proxies) == user


def megabytes(text: str) -> float:
    number, unit = int(text[:-2]), text[-2:]
    return number * {"Mi": 1.048576, "Gi": 1073.741824}[unit]


def test_each_container_has_the_memory_that_the_sizing_says(rendered: list[dict[str, Any]]) -> None:
    fixed = {
        name.lower(): sum(map(int, figures))
        for name, *figures in re.findall(
            r"^(Engine|Outlet) .* (\d+) MB for the master, (\d+) MB for (?:the|each) worker", _SIZING, re.MULTILINE
        )
    }
    assert sorted(fixed) == ["engine", "outlet"]
    (worker,) = (int(figure) for figure in re.findall(r"^API worker .* (\d+) MB, and", _SIZING, re.MULTILINE))
    (model,) = (int(figure) for figure in re.findall(r"^PostgreSQL .* s, (\d+) MB ", _SIZING, re.MULTILINE))
    (past,) = (o.default for _, found in opts.list_opts() for o in found if o.name == "max_past_mib")
    needed = {name: fixed[name] + model for name in fixed}
    needed["api"] = gunicorn.workers * 2 * (worker + round(past * 1.048576))
    idle = {**fixed, "api": gunicorn.workers * worker}
    for pod in pods(rendered):
        (container,) = pod["containers"]
        resources = container["resources"]
        assert megabytes(resources["limits"]["memory"]) >= needed.get(container["name"], 0)
        assert megabytes(resources["requests"]["memory"]) >= idle.get(container["name"], 0)
        assert "cpu" in resources["requests"]


def test_a_pod_serves_until_its_proxy_knows_its_end_and_ends_in_its_time(rendered: list[dict[str, Any]]) -> None:
    pod = named(rendered, "Deployment", "api")["spec"]["template"]["spec"]
    program, seconds = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "sleep"
    assert pod["terminationGracePeriodSeconds"] > int(seconds) + gunicorn.graceful_timeout
    for name in ("api", "engine"):
        assert named(rendered, "PodDisruptionBudget", name)["spec"]["maxUnavailable"] == 1


def test_the_ingress_does_what_the_example_of_nginx_does(rendered: list[dict[str, Any]]) -> None:
    annotations = named(rendered, "Ingress", "api")["metadata"]["annotations"]
    assert annotations["nginx.org/hsts"] == "True"
    assert f'Strict-Transport-Security "max-age={annotations["nginx.org/hsts-max-age"]}"' in _NGINX
    assert f"client_max_body_size {annotations['nginx.org/client-max-body-size']};" in _NGINX
    assert f"proxy_read_timeout {annotations['nginx.org/proxy-read-timeout']};" in _NGINX


PROXY = {"namespace": "nginx-ingress", "address": "10.244.3.3"}
PROMETHEUS = {"namespace": "monitoring", "address": "10.244.3.4"}
STRANGER = {"namespace": "default", "address": "10.244.3.5"}
OUTSIDE = {"namespace": "", "address": "192.0.2.1"}
METADATA = {"namespace": "", "address": "169.254.169.254"}


def permits(
    rendered: list[dict[str, Any]], pod: str, direction: str, peer: dict[str, str], port: int, protocol: str = "TCP"
) -> bool:
    """Whether the policies permit a connection, as Kubernetes does: one rule of any policy of the pod suffices."""
    rules = []
    for policy in (r["spec"] for r in rendered if r["kind"] == "NetworkPolicy"):
        labels = policy["podSelector"].get("matchLabels", {})
        if labels in ({}, {"app.kubernetes.io/name": f"watcher-sync-{pod}"}):
            rules.append(policy.get(direction, []) if direction.capitalize() in policy["policyTypes"] else None)
    assert rules, "no policy, so nothing is denied"
    found = [rule for part in rules if part is not None for rule in part]
    side = "from" if direction == "ingress" else "to"
    return any(
        (side not in rule or any(matches(one, peer) for one in rule[side]))
        and any((p["port"], p.get("protocol", "TCP")) == (port, protocol) for p in rule["ports"])
        for rule in found
    )


def matches(selector: dict[str, Any], peer: dict[str, str]) -> bool:
    if "ipBlock" in selector:
        address = ipaddress.ip_address(peer["address"])
        block = selector["ipBlock"]
        return address in ipaddress.ip_network(block["cidr"]) and not any(
            address in ipaddress.ip_network(part) for part in block.get("except", [])
        )
    return bool(selector["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": peer["namespace"]})


@pytest.mark.parametrize("pod", ["api", "engine", "outlet", "db-sync"])
def test_every_pod_reaches_name_servers_and_the_database_and_no_other_port(
    rendered: list[dict[str, Any]], pod: str
) -> None:
    for protocol in ("UDP", "TCP"):
        assert permits(rendered, pod, "egress", STRANGER, 53, protocol)
        assert permits(rendered, pod, "egress", STRANGER, 5353, protocol)
    assert permits(rendered, pod, "egress", OUTSIDE, 5432)
    assert permits(rendered, pod, "egress", OUTSIDE, 3306)
    for port in (22, 80, 8790, 9790, 2379, 10250):
        assert not permits(rendered, pod, "egress", OUTSIDE, port)


def test_only_the_proxy_reaches_the_api_and_only_prometheus_the_metrics(rendered: list[dict[str, Any]]) -> None:
    reached = {
        (pod, peer["namespace"], port)
        for pod in ("api", "engine", "outlet", "db-sync")
        for peer in (PROXY, PROMETHEUS, STRANGER, OUTSIDE)
        for port in (8776, 8790, 9790, 9791)
        if permits(rendered, pod, "ingress", peer, port)
    }
    assert reached == {
        ("api", PROXY["namespace"], 8790),
        ("engine", PROMETHEUS["namespace"], 9790),
        ("outlet", PROMETHEUS["namespace"], 9791),
        *(("outlet", peer["namespace"], 8776) for peer in (PROXY, PROMETHEUS, STRANGER, OUTSIDE)),
    }


def test_the_outlet_reaches_receivers_and_never_the_metadata_of_the_machine(rendered: list[dict[str, Any]]) -> None:
    assert permits(rendered, "outlet", "egress", OUTSIDE, 443)
    assert not permits(rendered, "outlet", "egress", METADATA, 443)
    assert not permits(rendered, "outlet", "egress", METADATA, 80)


def test_the_policies_permit_the_ports_of_the_table_and_no_others(rendered: list[dict[str, Any]]) -> None:
    page = (_ROOT / "doc" / "source" / "admin" / "containers.rst").read_text()
    (table,) = re.findall(r"^Pods +Connections\n=+ +=+\n(.*?)^=+ +=+$", page, re.MULTILINE | re.DOTALL)
    written = {
        row.split()[0].lower(): {int(port) for port in re.findall(r"(?<![\d])(\d{2,5})(?=[,)])", row)}
        for row in re.split(r"\n(?=\S)", table)
        if row.strip()
    }
    policies = {r["metadata"]["name"].removeprefix("watcher-sync").lstrip("-") or "all": r["spec"]
                for r in rendered if r["kind"] == "NetworkPolicy"}  # fmt: skip
    permitted = {
        name: {p["port"] for side in ("ingress", "egress") for rule in spec.get(side, []) for p in rule["ports"]}
        for name, spec in policies.items()
    }
    assert written == permitted
