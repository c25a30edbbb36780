// SPDX-License-Identifier: Apache-2.0
// The operation leases: who may change an instance now, doing what, since when, and until when without a heartbeat.
import { Asking } from "./asking.js";
import { Problem, getPages } from "./api.js";
import { html, Trouble } from "./html.js";
import { number, words } from "./format.js";
import { Ref } from "./names.js";
import { Time } from "./times.js";

/** All running leases: one that was left out would make its instance look free. */
const askAll = async () => (await getPages("v1/leases?limit=1000", { pages: Infinity })).leases;

/** All running leases; none where they are not for this reader. */
export async function askLeases() {
  try {
    return await askAll();
  } catch (error) {
    if (error instanceof Problem && [403, 404].includes(error.status)) return [];
    throw error;
  }
}

export function Lease({ lease, long }) {
  if (!lease) return html`<span class="empty">${long ? "No operation holds it." : "free"}</span>`;
  return html`<span class="state busy">${lease.operation}</span> by ${lease.holder}${long && html` since <${Time} value=${lease.since} />; without a
    heartbeat it expires <${Time} value=${lease.expires_at} />`}`;
}

export class Leases extends Asking {
  every = 3000;
  state = { problem: null, leases: null };

  async load() {
    return { leases: await askAll() };
  }

  render({ open, names }, { problem, leases }) {
    return html`
      <section class="leases pane" aria-labelledby="leases-title">
        <header class="pane-head"><h2 id="leases-title">Operation leases</h2>
          ${leases && html`<span class="figure">${number(leases.length)}</span>`}</header>
        <div class="pane-body">
          <p class="about">While an operation holds the lease of an instance, every other one gets 409, and the sync leaves the
            instance alone. A holder that sends no heartbeat loses it.</p>
          ${problem && html`<${Trouble} problem=${problem} refused="The leases are for readers of a project." />`}
          ${leases && !leases.length && html`<p class="none">No operation runs.</p>`}
          ${leases?.length > 0 && html`<table class="data">
            <caption class="sr">Operation leases</caption>
            <thead><tr><th scope="col">Instance</th><th scope="col">Operation</th><th scope="col">Holder</th><th scope="col">Since</th>
              <th scope="col">Last heartbeat</th><th scope="col">Expires</th></tr></thead>
            <tbody>${leases.map((lease) => html`<tr key=${lease.id}>
              <th scope="row"><${Ref} kind=${lease.kind} id=${lease.entity_id} names=${names} open=${open} /><span class="sub">${words(lease.kind)}</span></th>
              <td data-label="Operation">${lease.operation}</td>
              <td data-label="Holder">${lease.holder}</td>
              <td data-label="Since"><${Time} value=${lease.since} /></td>
              <td data-label="Last heartbeat"><${Time} value=${lease.heartbeat_at} /></td>
              <td data-label="Expires"><${Time} value=${lease.expires_at} /></td>
            </tr>`)}</tbody>
          </table>`}
        </div>
      </section>`;
  }
}
