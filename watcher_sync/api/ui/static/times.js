// SPDX-License-Identifier: Apache-2.0
// Times as people read them: the clock and how long ago it is. All of them move on together.
import { Component, html } from "./html.js";
import { span, when } from "./format.js";

const STEP = 5000;
const shown = new Set();

setInterval(() => {
  if (!document.hidden) for (const time of shown) time.forceUpdate();
}, STEP);

/** How long ago a time is, or how long it is until then. */
export function relative(value) {
  const seconds = (Date.now() - Date.parse(value)) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  return seconds < 0 ? `in ${span(-seconds)}` : `${span(seconds)} ago`;
}

/** A time as a field of the type datetime-local has it, and back. */
export const toField = (value) => new Date(Date.parse(value) - new Date(value).getTimezoneOffset() * 60000).toISOString().slice(0, 19);
export const fromField = (text) => new Date(text).toISOString();

export class Time extends Component {
  componentDidMount() {
    shown.add(this);
  }

  componentWillUnmount() {
    shown.delete(this);
  }

  render({ value }) {
    if (!value) return html`<span class="empty">—</span>`;
    return html`<time datetime=${value} title=${value}>${when(value)} <span class="ago">${relative(value)}</span></time>`;
  }
}
