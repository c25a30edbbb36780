// SPDX-License-Identifier: Apache-2.0
// What the search finds: entities of all kinds by name or id, as /v1/search gives them. A reader of a project, who sees
// no topology, finds the entities of the project here.
import { html, Pure, Trouble } from "./html.js";
import { words } from "./format.js";

export class Found extends Pure {
  render({ found, problem, open }) {
    if (problem) return html`<${Trouble} problem=${problem} refused="The search is for readers of a project." />`;
    if (!found) return null;
    const { results, more } = found;
    return html`
      <h3 class="rule">Found <span class="figure" role="status">${results.length}${more && "+"}</span></h3>
      <ul class="found">
        ${results.map(
          ({ kind, id, name }) => html`<li key=${`${kind}/${id}`}>
            <span class="kind">${words(kind)}</span>
            <button type="button" class="link" title=${id} onClick=${() => open(kind, id)}>${name || id}</button>
            ${name && html`<span class="id">${id}</span>`}
          </li>`,
        )}
      </ul>
      ${more && html`<p class="more">There are more; a longer text finds them.</p>`}`;
  }
}
