// SPDX-License-Identifier: Apache-2.0
// Times as people read them: the clock and how long ago it is. All of them move on together.
import { Component, html } from "./html.js";
import { span, when, zone } from "./format.js";

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

const MINUTE = 60000;
const DAY = 1440 * MINUTE;

const offset = (time) => new Date(time).getTimezoneOffset() * MINUTE;

/** A time as a field of the type datetime-local has it. */
const toField = (value) => new Date(Date.parse(value) - offset(value)).toISOString().slice(0, 19);

/** The moments that a field's text means, as ISO times: two in the hour that is repeated at the end of summer time. */
export function momentsOf(text) {
  const [local, utc] = [Date.parse(text), Date.parse(`${text}Z`)];
  const near = [...new Set([local - DAY, local + DAY].map((day) => utc + offset(day)))];
  const found = near.filter((time) => Date.parse(toField(new Date(time).toISOString())) === local);
  return (found.length ? found : [local]).map((time) => new Date(time).toISOString());
}

/** Properties: title, value (a time, or empty), onMoment(what was entered, or empty), and those of an input. */
export class MomentField extends Component {
  state = { text: null, second: false };

  componentDidUpdate(before) {
    if (before.value !== this.props.value) this.setState({ text: null });
  }

  enter(text, second = false) {
    this.setState({ text, second });
    this.props.onMoment(text ? momentsOf(text).at(second ? -1 : 0) : "");
  }

  render({ title, value, onMoment, ...more }, { text: entered, second }) {
    const text = entered ?? (value ? toField(value) : "");
    const moments = text ? momentsOf(text) : [new Date().toISOString()];
    const isSecond = entered === null ? value && Date.parse(value) >= Date.parse(moments.at(-1)) : second;
    return html`<span class="moment"><label>${title} <input type="datetime-local" step="1" value=${text}
        onInput=${(event) => this.enter(event.target.value)} ...${more} /></label>
      ${moments.length === 1
        ? html`<span class="zone">${zone(moments[0])}</span>`
        : html`<select class="zone" aria-label=${`Time zone of ${title}`} onChange=${(event) => this.enter(text, event.target.selectedIndex === 1)}>
            ${moments.map((time, i) => html`<option key=${time} selected=${isSecond ? i === 1 : i === 0}>${zone(time)}</option>`)}</select>`}</span>`;
  }
}

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
