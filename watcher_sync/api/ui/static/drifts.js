// SPDX-License-Identifier: Apache-2.0
// One list of what differs: the VNF instances whose pods match no level, and the differences between the model and the
// live systems. The API explains each of them, so that the command line says the same.
import { Asking } from "./asking.js";
import { getPages } from "./api.js";
import { html, Trouble } from "./html.js";
import { number, plain, words } from "./format.js";
import { look } from "./health.js";
import { Ref } from "./names.js";
import { Time } from "./times.js";

/** The name that a drift of a whole entity has instead of a value. */
export const nameIn = (drift) => (drift.field === "" ? (drift.model_value ?? drift.live_value) : null);

/** Drifts by entity: [{kind, id, name, drifts}]. */
export function byEntity(drifts) {
  const found = new Map();
  for (const drift of drifts) {
    const key = `${drift.cause}/${drift.kind}/${drift.entity_id}`;
    if (!found.has(key)) found.set(key, { key, kind: drift.kind, id: drift.entity_id, name: drift.name, drifts: [] });
    found.get(key).drifts.push(drift);
  }
  return [...found.values()];
}

function What({ drift }) {
  if (drift.cause === "level" || drift.field === "") return html`<span>${drift.summary}</span>`;
  return html`<span class="field">${words(drift.field)}</span>: model <span class="old">${plain(drift.model_value)}</span>, live${" "}
    <span class="new">${plain(drift.live_value)}</span>`;
}

/** How severe it is: the state of a VNF instance, or what is done about a difference. */
function Mark({ drift }) {
  if (drift.cause === "level") return html`<span class=${`state ${look(drift.live_value)}`}>${drift.live_value}</span>`;
  return html`<span class="state warn">${drift.field === "" ? (drift.live_value === null ? "missing" : "unknown to the model") : "differs"}</span>`;
}

function Card({ one, open, names }) {
  const [first] = one.drifts;
  const oldest = one.drifts.reduce((time, { since }) => (since < time ? since : time), first.since);
  return html`<li class="card" data-cause=${first.cause}>
    <p><span class="kind">${words(one.kind)}</span> <${Ref} kind=${one.kind} id=${one.id} name=${one.name} names=${names} open=${open} />
      ${" "}<${Mark} drift=${first} />
      <span class="sub">${first.cause === "level" ? "observe" : first.policy} · ${first.source} · since <${Time} value=${oldest} /></span></p>
    <ul>${one.drifts.map((drift) => html`<li key=${`${drift.id}`}><${What} drift=${drift} /></li>`)}</ul>
    ${[...new Set(one.drifts.map(({ remedy }) => remedy))].map((remedy) => html`<p class="sub" key=${remedy}>${remedy}</p>`)}
  </li>`;
}

export class Drifts extends Asking {
  every = 5000;
  state = { problem: null, drifts: null, more: false };

  concerns(row) {
    return row.kind === "vnf_instance";
  }

  async load() {
    const { drifts, more } = await getPages("v1/drifts?levels=true&limit=500");
    return { drifts, more };
  }

  render({ open, names }, { problem, drifts, more }) {
    const entities = byEntity(drifts || []);
    return html`
      <section class="drifts pane" aria-labelledby="drifts-title">
        <header class="pane-head"><h2 id="drifts-title">Drifts</h2>
          ${drifts && html`<span class="figure" role="status">${number(entities.length)}${more && "+"}</span>`}</header>
        <div class="pane-body">
          ${problem && html`<${Trouble} problem=${problem} refused="The drifts are for readers of a project." />`}
          <p class="about">VNF instances that are at no level come first. They leave the list at the change that brings them back. A
            comparison with the live systems finds the others. “heal”: the model is corrected. “observe”: an operator decides.</p>
          ${!drifts && !problem && html`<p class="none">Loading…</p>`}
          ${drifts && !drifts.length && html`<p class="none">Every VNF instance is at a level, and the model is what runs.</p>`}
          <ul class="cards" id="drift-list">${entities.map((one) => html`<${Card} key=${one.key} one=${one} open=${open} names=${names} />`)}</ul>
        </div>
      </section>`;
  }
}
