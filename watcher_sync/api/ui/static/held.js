// SPDX-License-Identifier: Apache-2.0
// Deletions that the delete guard holds back: a comparison would delete more than `[reconcile] max_delete_percent` of
// a kind, so an operator decides. Each entity is still in the model and no longer in the live system.
import { Asking } from "./asking.js";
import { Problem, get, getPages } from "./api.js";
import { nameIn } from "./drifts.js";
import { html, Trouble } from "./html.js";
import { number, words } from "./format.js";
import { Ref } from "./names.js";
import { Time } from "./times.js";

const GUARD = /delete guard/i;

/** What says so: the problem of sources and inventories. */
function notes({ sources = [], inventories = [] }) {
  const found = new Map();
  for (const one of [...sources, ...inventories]) {
    for (const text of [one.problem, one.detail]) if (text && GUARD.test(text)) found.set(one.source, text);
  }
  return found;
}

async function askSources() {
  try {
    return await get("v1/sources");
  } catch (error) {
    if (error instanceof Problem && error.status === 403) return {};
    throw error;
  }
}

export class Held extends Asking {
  every = 5000;
  state = { problem: null, held: null, more: false, notes: new Map() };

  async load() {
    const [sources, { drifts, more }] = await Promise.all([askSources(), getPages("v1/drifts?missing=live&limit=500")]);
    return { notes: notes(sources), held: drifts, more };
  }

  render({ open, names }, { problem, held, more, notes: said }) {
    const sources = [...new Set([...said.keys(), ...(held || []).map((one) => one.source)])].sort();
    return html`
      <section class="held pane" aria-labelledby="held-title">
        <header class="pane-head"><h2 id="held-title">Held-back deletions</h2>
          ${held && html`<span class=${held.length ? "figure alarming" : "figure"}>${number(held.length)}${more && "+"}</span>`}</header>
        <div class="pane-body">
          <p class="about">A comparison that would delete a large part of a kind deletes nothing of it. Look at the live system
            first: a listing that is cut short looks the same as a deletion.</p>
          ${problem && html`<${Trouble} problem=${problem} refused="The drifts are for readers of a project." />`}
          ${!held && !problem && html`<p class="none">Loading…</p>`}
          ${held && !sources.length && html`<p class="none">No deletion is held back.</p>`}
          ${sources.map((source) => {
            const own = (held || []).filter((one) => one.source === source);
            return html`<h3 class="rule" key=${source}>${source} <span class="figure">${number(own.length)}${more && "+"}</span></h3>
              ${said.has(source) && html`<p class="problem" role="status">${said.get(source)}</p>`}
              <ul class="cards">${own.slice(0, 200).map((one) => html`<li key=${one.id} class="card">
                <span class="kind">${words(one.kind)}</span> <${Ref} kind=${one.kind} id=${one.entity_id} name=${nameIn(one)} names=${names} open=${open} />
                <span class="sub">${one.policy} · missing since <${Time} value=${one.since} /></span></li>`)}</ul>`;
          })}
        </div>
      </section>`;
  }
}
