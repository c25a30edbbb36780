# SPDX-License-Identifier: Apache-2.0
"""The views of the page: what each shows, filters, sorts, and opens."""

from __future__ import annotations

import datetime
import time
import uuid
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import Page
from tests.simulated import NOON
from tests.waiting import wait_until
from watcher_sync.client.filters import parse_filters
from watcher_sync.commit.batch import Batch
from watcher_sync.events import Event
from watcher_sync.model.changes import Upsert
from watcher_sync.operations import OperationLimits, Operations, Owner
from watcher_sync.storage.drifts import FieldDifference, replace_drifts
from watcher_sync.storage.groups.operation_leases import OperationLeases

NOW = datetime.datetime.now(datetime.UTC)

TEXTS = (
    "state=error",
    "state!=active",
    "vcpus>4 vcpus<=8",
    "name~web",
    "host in a,b",
    "host in a, b",
    "host not in a,b",
    "labels[app.kubernetes.io/name]=web",
    "state=neq:active",
)

PARSE = """
const [texts, done] = arguments;
import('/static/filters.js').then(({ parseFilters }) => done(texts.map((text) => parseFilters(text))));
"""

ROWS = """
return [...document.querySelectorAll('.front .data tbody tr')].map(
  (row) => [...row.children].map((cell) => cell.innerText.replace(/\\s+/g, ' ').trim()));
"""


# Asks for the deletion of the first event, or confirms it where that is asked.
DROP = """
const buttons = [...document.querySelectorAll('.quarantined > li:first-child .actions button')];
const sure = buttons.find((one) => one.textContent === 'Drop it for good');
const found = sure ?? buttons.find((one) => one.textContent.startsWith('Drop'));
found?.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}));
"""


@pytest.fixture
def cloud(shared_cloud: Cloud) -> Cloud:
    """One for all tests here; each uses entities of its own."""
    return shared_cloud


@pytest.fixture
def page(shared_page: Page) -> Page:
    """One for all tests here; each opens its own views."""
    shared_page.open()
    wait_until(lambda: shared_page.all(".connection.live"), 60, "the live page")
    return shared_page


def rows(page: Page) -> list[list[str]]:
    """The cells of the table of the view."""
    return page.run(ROWS)  # type: ignore[no-any-return]


def slide(page: Page, seq: int) -> None:
    """Move the slider to a moment."""
    page.on(".as-of input", "one.value = given[0]; one.dispatchEvent(new Event('input', {bubbles: true}))", seq)


def change(cloud: Cloud, kind: str, entity_id: str, facet: str, /, **fields: Any) -> None:
    """One change of an entity of any kind."""
    cloud.commit(Upsert(kind, entity_id, cloud._version(), {facet: fields}), type="instance.update")


def vnf(cloud: Cloud, *, state: str = "SYNCED", pods: int = 2, ready: int = 2, crashing: bool = False) -> str:
    """A VNF instance with a Deployment and its pods."""
    workload, entity_id = "5f000000-0000-4000-8000-000000000001", "amf-1"
    change(cloud, "workload", workload, "state", kind="Deployment", name="amf", namespace="core", cluster="edge",
           replicas=2, ready_replicas=ready, updated_replicas=2, generation=1, observed_generation=1)  # fmt: skip
    vnfcs = []
    for number in range(pods):
        pod_id, bad = f"6f000000-0000-4000-8000-{number:012d}", crashing and number == 0
        change(cloud, "pod", pod_id, "state", name=f"amf-{number}", namespace="core", cluster="edge", phase="Running",
               ready=not bad, crash_looping=bad, restarts=7 * bad, owner_uid=workload)  # fmt: skip
        change(cloud, "pod", pod_id, "workload", workload_uid=workload)
        flags = ["CrashLoopBackOff"] if bad else []
        vnfcs.append(
            {
                "id": f"vnfc-{number}",
                "vduId": "worker",
                "computeResource": {"resourceId": f"amf-{number}"},
                "pod": {"uid": pod_id, "node": "node-1", "flags": flags},
            }
        )
    change(cloud, "vnf_instance", entity_id, "registration", name="amf", cluster="edge", namespace="core",
           vnfd_id="amf-vnfd", registered_at=NOW, created_at=NOW,
           vdus={"worker": {"workload": {"kind": "Deployment", "name": "amf"}, "initial": 2, "min": 1, "max": 6}},
           aspects={"workers": {"max_scale_level": 2, "deltas": {"worker": 2}}})  # fmt: skip
    wrong = {} if state == "SYNCED" else {"detail": f"{pods} pods are above its max, 6"}
    change(cloud, "vnf_instance", entity_id, "observed", state=state, observed={"worker": pods}, observed_at=NOW,
           scale_level={"workers": 0}, nearest_level={} if state == "SYNCED" else {"workers": 2},
           workload_uids=[workload],
           vdu_results={"worker": {"result": state, **wrong}}, vnfc_resource_info=vnfcs, vacant=[])  # fmt: skip
    return entity_id


def test_the_filters_of_the_page_are_those_of_the_command_line(page: Page) -> None:
    page.browser.set_script_timeout(120)
    found = page.browser.execute_async_script(PARSE, list(TEXTS))
    for text, pairs in zip(TEXTS, found, strict=True):
        singly = ["vcpus>4", "vcpus<=8"] if text.startswith("vcpus") else [text]
        expected = [(name, value) for name, values in parse_filters(singly).items() for value in values]
        assert [tuple(pair) for pair in pairs] == expected, text
    quoted = page.browser.execute_async_script(PARSE, ['disabled_reason="PSU 2 failed" edge', 'a in "x,y",z b=1'])
    assert quoted == [
        [["disabled_reason", "PSU 2 failed"], ["name", "prefix:edge"]],
        [["a", 'in:"x,y",z'], ["b", "1"]],
    ]


def test_the_table_filters_sorts_turns_pages_and_opens(page: Page, cloud: Cloud) -> None:
    page.open("#/table/instance")
    wait_until(lambda: len(rows(page)) == 50, 60, "a page of instances")
    first = [row[0] for row in rows(page)]
    page.choose(".pages button", "Next")
    page.wait_text(".pages", "51 to 100")
    assert not {row[0] for row in rows(page)} & set(first)
    page.choose(".pages button", "Previous")
    wait_until(lambda: [row[0] for row in rows(page)] == first, 60, "the first page again")
    page.search("filter", "state=error")
    wait_until(lambda: len(rows(page)) == 7, 60, "the instances in error")
    assert {row[1] for row in rows(page)} == {"error"}
    assert "q=state%3Derror" in page.run("return location.hash")
    wait_until(lambda: page.all(".sort"), 60, "heads that sort")
    page.click(".sort")
    wait_until(lambda: page.all("th[aria-sort=ascending]"), 60, "the order")
    wait_until(lambda: (names := [row[0] for row in rows(page)]) == sorted(names), 60, "the sorted names")
    name = rows(page)[0][0]
    page.click(".front tbody .link")
    page.wait_text(".entity h2", name)
    page.browser.refresh()
    page.wait_text(".entity h2", name)
    wait_until(lambda: len(rows(page)) == 7, 60, "the same filter after a reload")
    page.press(Keys.ESCAPE)
    page.search("filter", " nonsense=1")
    page.wait_text(".table .problem", "nonsense")
    assert page.text("#filter-wrong")


def test_a_table_follows_the_changes_of_its_kind(page: Page, cloud: Cloud) -> None:
    page.open("#/table/instance?q=name%3Dnewborn-1")
    page.wait_text(".table .none", "Nothing matches the filter")
    entity_id = str(uuid.uuid4())
    cloud.commit(cloud.instance(entity_id, host="cmp-muc-0017", name="newborn-1", state="active", metadata={"a": "1"}))
    wait_until(lambda: [row[0] for row in rows(page)] == ["newborn-1"], 60, "the new instance")
    page.open("#/table/instance?q=metadata[a]%3D1")
    wait_until(lambda: [row[0] for row in rows(page)] == ["newborn-1"], 60, "the instance by a label")


def test_a_table_is_shown_as_it_was_by_its_address_and_by_the_slider(page: Page, cloud: Cloud) -> None:
    entity_id = list(cloud.instances)[5]
    name = cloud.instances[entity_id]["name"]
    cloud.commit(cloud.instance(entity_id, state="paused"))
    seq = cloud.cycle.model.generation
    cloud.commit(cloud.instance(entity_id, state="error"))
    page.open(f"#/table/instance?q=name%3D{name}&as_of={seq}")
    wait_until(lambda: [row[:2] for row in rows(page)] == [[name, "paused"]], 60, "the instance as it was")
    page.wait_text(".as-of output", f"#{seq:,}")
    page.choose(".as-of button", "Now")
    wait_until(lambda: [row[:2] for row in rows(page)] == [[name, "error"]], 60, "the instance as it is")
    assert "as_of" not in page.run("return location.hash")
    slide(page, seq)
    wait_until(lambda: [row[:2] for row in rows(page)] == [[name, "paused"]], 60, "the instance as it was")


def test_a_vnf_instance_is_explained_with_its_vdus_its_pods_and_its_lease(page: Page, cloud: Cloud) -> None:
    entity_id = vnf(cloud, state="OUT_OF_RANGE", pods=7, ready=1, crashing=True)
    leases = OperationLeases(cloud.store.database, cloud.store.tables)
    Operations(leases, "vnf_instance", OperationLimits(lease_time=600.0)).begin(
        entity_id, "HEAL", "lcm-1", Owner("u", None)
    )
    page.open("#/vnfs")
    wait_until(lambda: len(rows(page)) == 1, 60, "the VNF instance")
    row = rows(page)[0]
    assert row[:3] == ["amf", "OUT_OF_RANGE", "error 1 of 7 pods crashes again and again"]
    assert "above the highest level" in row[4]
    assert row[5] == "worker 1/2 OUT_OF_RANGE"
    assert row[6] == "HEAL by lcm-1"
    page.click(".vnfs tbody .link")
    page.wait_text(".entity .health", "OUT_OF_RANGE")
    page.wait_text(".entity", "7 pods are above its max, 6")
    page.wait_text(".entity", "2 at level 0, 1 to 6")
    page.wait_text(".vnfcs", "CrashLoopBackOff")
    page.wait_text(".entity", "HEAL by lcm-1 since")
    text = page.text(".entity .pane-body").split("History")[0]
    assert "{" not in text
    assert "[object" not in text
    wait_until(lambda: len(page.all(".graph .node")) == 9, 60, "workload, 7 pods and VNF instance")
    assert len(page.all(".graph .line")) == 8
    assert page.all(".graph .node.bad title")
    page.choose(".graph .node.bad", "pod")
    page.wait_text(".entity .health", "CrashLoopBackOff")
    page.wait_text(".entity .health", "7 restarts")
    page.open("#/leases")
    wait_until(lambda: [row[:3] for row in rows(page)] == [["amf VNF instance", "HEAL", "lcm-1"]], 60, "the lease")


def test_state_and_health_are_two_words_each_with_its_reason(page: Page, cloud: Cloud) -> None:
    entity_id = vnf(cloud, pods=3, ready=2, crashing=True)
    page.open("#/vnfs")
    reason = "1 of 3 pods crashes again and again"
    wait_until(lambda: [row[1:3] for row in rows(page)] == [["SYNCED", f"error {reason}"]], 60, "state and health")
    assert [text.strip("↕ ") for text in page.texts(".vnfs thead th")[1:3]] == ["state", "health"]
    assert page.texts(".vnfs tbody .state.bad")[0] == "error"
    page.open(f"#/vnf_instance/{entity_id}")
    page.wait_text(".entity .health", reason)
    state, health = page.texts(".entity .health > div")
    assert " ".join(state.split()) == "State SYNCED What runs is a level of every aspect."
    assert " ".join(health.split()) == f"Health error {reason}."
    assert page.texts(".entity .health .state") == ["error"]


def test_drifts_and_instances_off_their_levels_are_one_list_until_they_are_healed(page: Page, cloud: Cloud) -> None:
    ids = list(cloud.instances)[:2]
    found = [
        FieldDifference(
            kind="instance", entity_id=ids[0], field="host", model_value="cmp-a", live_value="cmp-b", policy="heal"
        ),
        FieldDifference(kind="instance", entity_id=ids[0], field="vcpus", model_value=2, live_value=4, policy="heal"),
        FieldDifference(kind="instance", entity_id=ids[1], field="", model_value="lost-1", policy="observe"),
    ]
    replace_drifts(cloud.store.database, found, source="nova", kinds=["instance"], now=NOON)
    vnf(cloud, state="DRIFTED", pods=3)
    page.open("#/drifts")
    wait_until(lambda: len(page.all("#drift-list .card")) == 3, 60, "the list")
    page.wait_text("#drift-list .card:nth-child(2)", cloud.instances[ids[0]]["name"], 60)
    expected = (
        ("amf", "DRIFTED", "observe", "edge", "between two levels", "Scale the workload"),
        ("heal", "host: model cmp-a, live cmp-b", "vcpus: model 2, live 4"),
        ("lost-1", "missing", "observe", "The model has it", "Nothing is written"),
    )
    for card, texts in zip(page.texts("#drift-list .card"), expected, strict=True):
        assert [text for text in texts if text not in card] == []
    replace_drifts(cloud.store.database, [], source="nova", kinds=["instance"], now=NOON)
    vnf(cloud)
    page.wait_text(".drifts .none", "the model is what runs", 60)


def test_held_back_deletions_are_listed_however_many_other_drifts_there_are(page: Page, cloud: Cloud) -> None:
    ids = [f"many-{number}" for number in range(2100)]
    found = [
        FieldDifference(kind="instance", entity_id=each, field="vcpus", model_value=2, live_value=4, policy="heal")
        for each in ids
    ]
    held = [FieldDifference(kind="instance", entity_id="held-1", field="", model_value="held-name", policy="heal")]
    replace_drifts(cloud.store.database, found, source="many", kinds=["instance"], now=NOON)
    replace_drifts(cloud.store.database, held, source="nova", kinds=["instance"], now=NOON)
    page.open("#/held")
    page.wait_text(".held .card", "held-name")
    assert page.text(".held .figure") == "1"
    for source in ("many", "nova"):
        replace_drifts(cloud.store.database, [], source=source, kinds=["instance"], now=NOON)
    page.wait_text(".held .none", "No deletion is held back")


def test_changes_are_narrowed_by_severity_and_text_and_paused(page: Page, cloud: Cloud) -> None:
    ids = list(cloud.instances)
    cloud.commit(cloud.instance(ids[0], state="error"), cloud.instance(ids[1], vcpus=31))
    name = cloud.instances[ids[0]]["name"]
    page.on("#severity", "one.value = 'error'; one.dispatchEvent(new Event('change', {bubbles: true}))")
    severities = "return [...document.querySelectorAll('li[data-seq]')].map((one) => one.dataset.severity)"
    wait_until(lambda: set(page.run(severities)) == {"error"}, 60, "the severe changes alone")
    page.on("#change-text", "one.focus()")
    page.press(*name)
    wait_until(lambda: len(page.all(".change")) == 1, 60, "one change")
    page.choose(".pause")
    cloud.commit(cloud.instance(ids[0], state="active"))
    cloud.commit(cloud.instance(ids[0], state="error"))
    page.wait_text(".changes .note", "paused")
    assert len(page.all(".change")) == 1
    page.choose(".pause")
    # Changes of one second are one row.
    count = "(n, one) => n + Number(one.querySelector('.times')?.textContent.slice(1) ?? 1)"
    changes = f"return [...document.querySelectorAll('.change')].reduce({count}, 0)"
    wait_until(lambda: page.run(changes) == 2, 60, "what came meanwhile")


def test_quarantined_events_are_grouped_by_reason_replayed_and_dropped(page: Page, cloud: Cloud) -> None:
    whys = [f"id is missing (sequence {number})" for number in range(30)]
    bad = [Event(id=w, type="dcm.vm", source="dcm", time=NOW, data=w.encode(), undecodable=w) for w in whys]
    cloud.cycle.run(Batch(events=bad))
    page.wait_text(".by-reason > li:first-child .reason", "id is missing (sequence #)", 60)
    page.wait_text(".by-reason > li:first-child .facts", "30 from dcm")
    assert page.text(".quarantine .figure") == "33"
    page.click(".by-reason > li:first-child > details > summary")
    wait_until(lambda: len(page.all(".quarantined > li")) == 20, 60, "the latest of them")
    page.click(".quarantined summary")
    page.wait_text(".quarantined pre", "id is missing")
    buttons = ".quarantined > li:first-child .actions button"
    first = "return document.querySelector('.quarantined > li')?.dataset.id"
    before = page.run(first)
    page.choose(buttons, "Replay")
    refused = ".quarantined > li:first-child .actions [role=status]"
    wait_until(lambda: page.run(first) != before or page.text(refused) == "quarantined", 60, "the refusal")
    assert page.text(".quarantine .figure") == "33"  # it was refused again

    def is_dropped() -> bool:
        """The answer to the replay may replace the entry, and with it the question, until the last moment.

        The figure falls before another entry is the first one, so no second event is dropped.
        """
        if page.text(".quarantine .figure") == "32":
            return True
        page.run(DROP)
        time.sleep(0.2)  # until a click is drawn
        return False

    wait_until(is_dropped, 60, "one event less")


@pytest.mark.parametrize(
    ("view", "text"),
    [("services", "There are none"), ("held", "No deletion is held back"),
     ("drifts", "Every VNF instance is at a level")],
)  # fmt: skip
def test_a_view_without_entries_says_so(page: Page, view: str, text: str) -> None:
    page.open(f"#/{view}")
    page.wait_text(f".{view}", text, 60)


def test_a_page_that_was_left_gives_its_connection_back_and_goes_on_when_it_is_shown_again(
    page: Page, cloud: Cloud
) -> None:
    for _ in range(8):  # a browser has six connections for a server
        page.open()
        wait_until(lambda: page.all(".connection.live"), 60, "the live page")
    entity_id = list(cloud.instances)[3]
    cloud.commit(cloud.instance(entity_id, host="cmp-ams-0000", vcpus=63))
    page.browser.get("about:blank")
    page.browser.back()
    wait_until(lambda: page.all(".connection.live"), 60, "the live page")
    cloud.commit(cloud.instance(entity_id, vcpus=64))
    page.wait_text(".changes", "64")
