# SPDX-License-Identifier: Apache-2.0
"""``conn.watcher_sync`` of openstacksdk reads what the API has, waits for it, and raises the SDK's exceptions."""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import socket
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import openstack
import pytest
from keystonemiddleware.fixture import AuthTokenFixture
from openstack import exceptions
from openstack.config import loader

from tests.migrated import migrate
from tests.plugin_kinds import plugin_kinds
from tests.simulated import by_facet, telling, told
from tests.unit.client.conftest import served
from tests.unit.extensions.vnf.api.test_instances import DEMO
from tests.unit.extensions.webhooks.api.test_subscriptions import KEY
from tests.unit.security.callers import OWN, SERVER, Api
from tests.waiting import PATIENCE_SECONDS, deadline
from watcher_sync.backoff import Backoff
from watcher_sync.client import sdk
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.storage.database import database
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "doc" / "source" / "user" / "client.rst"


@pytest.fixture
def conf(conf):
    conf.set_override("max_limit", 3, group="api")  # less than the client asks for at first
    conf.set_override("secret_keys", [KEY], group="outlet_webhook")
    return conf


@pytest.fixture
def store(conf):
    store = migrate(Store(database.open_database(conf), plugin_kinds()))
    yield store
    store.close()
    store.database.dispose()


class Writer:
    """Commits changes as an engine would."""

    def __init__(self, store):
        self._cycle = CommitCycle(store, store.load(), telling())
        self._number = 0

    def __call__(self, *changes):
        self._number += 1
        self._cycle.run(Batch(events=[told(self._number, *changes)]))


def instance(entity_id, *, version=1, **values):
    return Upsert("instance", entity_id, str(version), by_facet("instance", **values))


@pytest.fixture
def write(store):
    """Two pages of instances on two hosts, and one entity of a plugin's kind."""
    write = Writer(store)
    for i in range(5):
        write(instance(f"i{i}", name=f"web-{i}", host=f"host-{i % 2}", state="active" if i else "error", vcpus=i))
    write(Upsert("policy", "p", "1", {"state": {"volumes": ["v"], "copies": 3}}))
    return write


def connected(endpoint, **options):
    """A connection without credentials.

    :param options: of ``openstack.connect``.
    """
    options = {"auth_type": "none", "endpoint": endpoint, **options}
    conn = openstack.connect(load_yaml_config=False, load_envvars=False, **options)
    conn.add_service(sdk.WatcherSync())
    return conn


@pytest.fixture
def conn(url, write):
    with connected(url) as conn:
        yield conn


@pytest.fixture
def conn_of(answering):
    """Makes a connection to an API that has one kind, and one entity of it."""
    with contextlib.ExitStack() as stack:

        def make(kind, entity):
            answering.will("200 OK", json.dumps({"version": {"kinds": {kind: "/v1/them"}}}).encode())
            answering.will("200 OK", json.dumps(entity).encode())
            return stack.enter_context(connected(stack.enter_context(served(answering))))

        yield make


class Observed:
    """The application, and the paths of the requests to it."""

    def __init__(self, application):
        self._application = application
        self.paths = []
        self.polls = threading.Event()
        """Set while the application has a long poll."""

    def __call__(self, environ, start_response):
        self.paths.append(environ["PATH_INFO"])
        if "wait=" in environ["QUERY_STRING"]:
            self.polls.set()
        return self._application(environ, start_response)


@pytest.fixture
def observed(application):
    return Observed(application)


@pytest.fixture
def waiting(observed, write):
    """Starts ``wait_for`` in another thread, and returns when its first long poll is in the API; then its result."""
    with served(observed) as url, connected(url) as conn:

        def start(*arguments):
            result = []
            patience = deadline(PATIENCE_SECONDS)

            def run():
                result.append(conn.watcher_sync.wait_for(*arguments, timeout=patience))

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            assert observed.polls.wait(patience)

            def end():
                thread.join(patience)
                return result[0]

            return end

        yield start


def ids(found):
    return [each.id for each in found]


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
def test_the_endpoint_may_end_with_the_version_and_is_not_discovered(observed, write, end):
    with served(observed) as url, connected(url + end) as conn:
        assert conn.watcher_sync.get_entity("instance", "i1").name == "web-1"
    assert observed.paths == ["/v1", "/v1/instances/i1"]


def test_a_list_has_all_pages_and_the_filters_of_the_api(conn, write):
    service = conn.watcher_sync
    assert ids(service.entities("instance")) == ["i0", "i1", "i2", "i3", "i4"]
    assert ids(service.entities("instances", state="active", host="host-0", sort="-id")) == ["i4", "i2"]
    assert ids(service.entities("instance", vcpus=3)) == ["i3"]
    assert ids(service.entities("instance", vcpus=["gt:1", "lt:4"], fields=("id",), marker="i2")) == ["i3"]
    assert ids(service.entities("instance", max_items=4)) == ["i0", "i1", "i2", "i3"]
    seq = next(service.events(since=0, kind="instance", entity_id="i1")).seq
    assert ids(service.entities("instance", as_of=seq)) == ["i0", "i1"]
    write(instance("i1", version=2, state="stopped"))
    assert service.get_entity("instance", "i1", as_of=seq).state == "active"


def test_a_truth_value_filters_in_the_words_of_json(conn, write):
    write(Upsert("pod", "p0", "1", {"state": {"ready": True}}), Upsert("pod", "p1", "1", {"state": {"ready": False}}))
    assert ids(conn.watcher_sync.entities("pod", ready=False)) == ["p1"]


def test_the_members_of_a_plugins_kind_are_attributes_and_keys(conn):
    (policy,) = conn.watcher_sync.entities("policy")
    assert (policy.id, policy.volumes, policy["copies"]) == ("p", ["v"], 3)
    assert json.loads(json.dumps(policy))["volumes"] == ["v"]
    assert conn.watcher_sync.get_entity("policy", policy) == policy


@pytest.mark.parametrize("kind", builtin_kinds().values(), ids=lambda kind: kind.name)
def test_every_field_of_our_kinds_is_an_attribute_of_its_name(conn_of, kind):
    values = {"id": "x", **{name: f"value of {name}" for name in kind.fields}}
    found = conn_of(kind.name, values).watcher_sync.get_entity(kind.name, "x")
    assert {name: getattr(found, name) for name in values} == values
    assert values.items() <= dict(found.items()).items()


def test_a_field_with_the_name_of_a_method_has_an_underline(conn_of):
    values = {"id": "x", "items": 1, "list": 2, "location": "hall", "callback-url": "u"}
    found = conn_of("rack", values).watcher_sync.get_entity("rack", "x")
    assert (found.items_, found["list_"], found.location_, found.callback_url) == (1, 2, "hall", "u")
    assert found.to_dict()["items_"] == 1


def test_an_entity_is_found_by_its_id_or_its_name(conn, write):
    service = conn.watcher_sync
    assert service.find_entity("instance", "i1") == service.find_entity("instance", "web-1")
    assert service.find_entity("instance", "web-9") is None
    assert service.find_entity("policy", "no-name") is None
    with pytest.raises(exceptions.NotFoundException, match=r"Not Found: .*web-9"):
        service.find_entity("instance", "web-9", ignore_missing=False)
    write(instance("i9", name="web-1"))
    with pytest.raises(exceptions.DuplicateResource, match=r"i1.*i9"):
        service.find_entity("instance", "web-1")


def test_a_refusal_is_the_exception_of_its_status_with_the_text_of_the_api(conn):
    with pytest.raises(exceptions.BadRequestException, match=r"^Bad Request: .*colour") as caught:
        list(conn.watcher_sync.entities("instance", colour="red"))
    assert caught.value.status_code == caught.value.response.status_code == 400
    assert caught.value.request_id.startswith("req-")
    with pytest.raises(exceptions.NotFoundException, match=r"^Not Found: .*i9"):
        conn.watcher_sync.get_entity("instance", "i9")
    with pytest.raises(exceptions.HttpException, match="Gone") as caught:
        next(conn.watcher_sync.events(since=10_000))
    assert caught.value.status_code == 410
    with pytest.raises(exceptions.SDKException, match="did you mean instance"):
        list(conn.watcher_sync.entities("servers"))


def test_an_api_that_is_away_or_silent_is_an_exception_of_the_sdk():
    with connected("http://127.0.0.1:1") as conn, pytest.raises(exceptions.SDKException, match="refused"):
        list(conn.watcher_sync.sources())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        silence = pytest.raises(exceptions.SDKException, match="no answer in time")
        with connected(url, api_timeout=0.1) as conn, silence:
            list(conn.watcher_sync.sources())


def test_a_role_without_rights_is_forbidden_and_a_member_has_its_project(conf, store):
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        api.fill()
        with served(api.application) as url:

            def service(caller):
                auth = {"endpoint": url, "token": api.headers(caller)["X-Auth-Token"]}
                return connected(url, auth_type="admin_token", auth=auth).watcher_sync

            (server,) = service("member").entities("instance")
            assert (server.id, server.project_id) == (SERVER, OWN)
            assert (server.host, server.get("host")) == (None, None)  # the API hides it from projects
            assert ids(service("stranger").entities("instance")) == []
            with pytest.raises(exceptions.ForbiddenException, match=r"Forbidden: .*compute_nodes"):
                list(service("member").entities("compute_node"))


def test_events_come_in_order_and_sources_have_their_state(conn, write):
    first, second = itertools.islice(conn.watcher_sync.events(since=1, kind="instance"), 2)
    assert (first.id, second.id, second.delta["name"]) == ("i1", "i2", (None, "web-2"))
    assert first.seq < second.seq
    assert list(conn.watcher_sync.sources()) == []


def test_waiting_ends_with_a_change_and_reads_again_for_those_of_the_entity_alone(waiting, observed, write):
    end = waiting("instance", "i0", {"state": "active", "host": "host-0"})
    for i in range(1, 4):
        write(instance(f"i{i}", version=2, state="stopped"))
    write(instance("i0", version=2, state="active"))
    found = end()
    assert (found.id, found.state) == ("i0", "active")
    assert observed.paths.count("/v1/instances/i0") == 2
    assert observed.paths.count("/v1/events") <= 3


def test_an_entity_may_come_into_being_while_one_waits_for_its_name(waiting, observed, write):
    end = waiting("instance", "db", {"state": "active"})
    observed.polls.clear()
    write(instance("i7", name="other", state="active"))
    assert observed.polls.wait(deadline(PATIENCE_SECONDS))
    assert observed.paths.count("/v1/instances/db") == 2  # the first read, by id, then by name
    write(instance("i8", name="db", state="building"))
    write(instance("i8", version=2, state="active"))
    assert end().id == "i8"


def test_a_function_may_wait_for_the_deletion(waiting, write):
    end = waiting("instance", "web-2", lambda entity: entity is None)
    write(Delete("instance", "i2", "2"))
    assert end() is None


def test_a_change_after_the_first_read_is_not_missed(conn, write):
    seen = []

    def is_stopped(server):
        if not seen:
            write(instance("i1", version=2, state="stopped"))
        seen.append(server.state)
        return server.state == "stopped"

    conn.watcher_sync.wait_for("instance", "i1", is_stopped, timeout=deadline(PATIENCE_SECONDS))
    assert seen == ["active", "stopped"]


class Restarting:
    """Answers the first requests of each path with 503, as a proxy does while the API starts again."""

    def __init__(self, application, times):
        self._application = application
        self.left = collections.defaultdict(lambda: times)

    def __call__(self, environ, start_response):
        path = environ["PATH_INFO"]
        if path == "/v1" or not self.left[path]:
            return self._application(environ, start_response)
        self.left[path] -= 1
        start_response("503 Service Unavailable", [("Content-Length", "0")])
        return [b""]


def test_an_api_that_restarts_is_waited_for(application, write, monkeypatch):
    monkeypatch.setattr(sdk, "Backoff", lambda *_: Backoff(0.01, 0.01))
    restarting = Restarting(application, 2)
    with served(restarting) as url, connected(url) as conn:
        found = conn.watcher_sync.wait_for("instance", "i1", {"state": "active"}, timeout=deadline(PATIENCE_SECONDS))
    assert found.id == "i1"
    assert restarting.left == {"/v1/events": 0, "/v1/instances/i1": 0}


def test_an_api_that_is_away_at_the_end_of_the_time_is_said(application, write):
    with (
        served(Restarting(application, 10**6)) as url,
        connected(url) as conn,
        pytest.raises(exceptions.SDKException, match="503"),
    ):
        conn.watcher_sync.wait_for("instance", "i1", {"state": "active"}, timeout=0.2)


def test_what_the_api_refuses_is_not_asked_again(conn, monkeypatch):
    monkeypatch.setattr(sdk, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: pytest.fail("repeated")))
    with pytest.raises(exceptions.SDKException, match="there is no kind"):
        conn.watcher_sync.wait_for("nothing", "i1", {"state": "active"})


def test_a_condition_that_is_met_at_once_waits_for_nothing(conn):
    assert conn.watcher_sync.wait_for("instance", "web-1", lambda server: server.vcpus == 1, timeout=0).id == "i1"


@pytest.mark.parametrize(("name", "why"), [("web-0", "has not met the condition"), ("web-9", "does not exist")])
def test_the_end_of_the_time_says_what_is_missing(conn, name, why):
    with pytest.raises(exceptions.ResourceTimeout, match=f"instance {name} {why} after 0.2 s"):
        conn.watcher_sync.wait_for("instance", name, {"state": "active"}, timeout=0.2)
    with pytest.raises(KeyError, match="stat"):
        conn.watcher_sync.wait_for("instance", "web-0", {"stat": "active"})


def test_subscriptions_are_made_listed_read_and_deleted(conn):
    service = conn.watcher_sync
    vnf = service.client.register_vnf_instance({"id": "vnf", **DEMO}).entity["id"]
    found = service.find_entity("vnf_instance", vnf)
    url = "https://receiver.example.com/hook"
    made = service.create_subscription(found, name="one", callback_url=url, min_notify_interval=5)
    assert (made.callback_url, made.min_notify_interval, made.instance_id) == (url, 5, vnf)
    assert service.get_subscription(vnf, "one").id == made.id
    assert ids(service.subscriptions(state="active")) == [made.id]
    with pytest.raises(exceptions.ConflictException, match=r"Conflict: .*one"):
        service.create_subscription(vnf, name="one", callback_url=url)
    service.delete_subscription(found, "one")
    service.delete_subscription(vnf, "one")
    with pytest.raises(exceptions.NotFoundException):
        service.delete_subscription(vnf, "one", ignore_missing=False)
    assert list(service.subscriptions()) == []


def test_the_example_of_the_page_runs_as_it_is_written(url, write, tmp_path, monkeypatch, capsys):
    blocks = PAGE.read_text("utf-8").split(".. code-block:: python\n")[1:]
    lines = next(block for block in blocks if "add_service" in block).splitlines(keepends=True)
    code = textwrap.dedent("".join(itertools.takewhile(lambda line: line[:1] in " \n", lines)))
    clouds = tmp_path / "clouds.yaml"
    clouds.write_text(json.dumps({"clouds": {"lab": {"auth_type": "none", "auth": {"endpoint": url}}}}))
    monkeypatch.setattr(loader, "CONFIG_FILES", [str(clouds)])
    exec(compile(code, str(PAGE), "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["web-2 host-0", "web-4 host-0", "active"]
