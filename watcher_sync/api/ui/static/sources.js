// SPDX-License-Identifier: Apache-2.0
// The strip of sources: fresh, late or dead.
//
// Fresh and not is the API's word. A source that is not fresh is late while it is connected or starts, and dead
// otherwise. A removed source is late.
import { html, Pure, Trouble } from "./html.js";
import { count, number, span } from "./format.js";

export function condition(source) {
  if (source.fresh && source.state !== "removed") return "fresh";
  return ["connected", "starting", "removed"].includes(source.state) ? "late" : "dead";
}

class Source extends Pure {
  render({ source, aged }) {
    const now = condition(source);
    const age = source.last_event_age === null ? null : source.last_event_age + aged;
    const facts = [];
    if (source.lag !== null) facts.push(`lag ${number(source.lag)}`);
    if (age !== null) facts.push(`last event ${span(age)} ago`);
    if (source.reconnects) facts.push(count(source.reconnects, "reconnect"));
    return html`
      <li class=${`source ${now}`} title=${`${source.state} since ${source.since} on ${source.host}`}>
        <span class="lamp" aria-hidden="true"></span>
        <span class="source-name">${source.source}</span>
        <span class="source-state">${now === "fresh" || source.state === "removed" ? source.state : `${now} · ${source.state}`}</span>
        <span class="source-facts">${facts.join(" · ")}</span>
        ${source.problem && html`<span class="source-problem">${source.problem}</span>`}
      </li>`;
  }
}

export class Sources extends Pure {
  render({ sources, inventories, problem, at }) {
    return html`
      <section class="sources" aria-labelledby="sources-title">
        <h2 id="sources-title">Sources</h2>
        ${problem && html`<${Trouble} problem=${problem} refused="The sources are for administrators." />`}
        ${sources && !sources.length && html`<p class="none">No engine has told of a source yet.</p>`}
        ${(inventories || [])
          .filter((inventory) => !inventory.complete)
          .map(
            (inventory) => html`
              <p class="source-problem" role="status" key=${inventory.source}>
                Inventory incomplete: ${inventory.source}${inventory.problem && ` (${inventory.problem})`}
              </p>`,
          )}
        <ul>
          ${(sources || []).map(
            (source) => html`<${Source} key=${source.source} source=${source} aged=${(Date.now() - at) / 1000} />`,
          )}
        </ul>
      </section>`;
  }
}
