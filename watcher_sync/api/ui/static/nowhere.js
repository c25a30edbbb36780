// SPDX-License-Identifier: Apache-2.0
// What is shown at an address of nothing, with the way back.
import { html } from "./html.js";

/** Properties: what (what there is not: "view x"). */
export function Nowhere({ what }) {
  return html`<section class="nowhere pane" aria-labelledby="nowhere-title">
    <header class="pane-head"><h2 id="nowhere-title">Nothing is at this address</h2></header>
    <div class="pane-body"><p class="problem" role="alert">There is no ${what}. <a class="link back" href="#/topology">Back to the topology</a></p></div>
  </section>`;
}
