// SPDX-License-Identifier: Apache-2.0
// Templates. Whatever is put into one becomes a text node or an attribute's value, never markup.
import { Component, Fragment, createRef, h, render } from "./preact.mjs";
import htm from "./htm.module.js";
import { Exact } from "./exact.js";

const text = (child) => (child instanceof Exact ? child.text : child);

export const html = htm.bind((type, properties, ...children) => h(type, properties, ...children.map(text)));
export { Component, Fragment, createRef, render };

/** What is wrong, in place of what would be there. That something is not for this reader is no error. */
export function Trouble({ problem, refused }) {
  if (problem.status === 401) return html`<p class="none">Needs a token.</p>`;
  if (problem.status === 403) return html`<p class="none">${refused || problem.message}</p>`;
  return html`<p class="problem" role="alert">${problem.message}</p>`;
}

/** A component that is drawn again only when one of its properties is another value. */
export class Pure extends Component {
  shouldComponentUpdate(props, state) {
    if (state !== this.state) return true;
    const old = this.props;
    for (const name in props) if (props[name] !== old[name]) return true;
    return false;
  }
}
