// SPDX-License-Identifier: Apache-2.0
// The moment that the page shows: a slider over the journal, from the oldest change that it still has to the latest, and
// a field for a time. Below the slider are times, and marks where something changed.
import { Problem, get, serverTime } from "./api.js";
import { Component, html } from "./html.js";
import { clock, number, when } from "./format.js";
import { severity } from "./health.js";
import { MomentField, Time } from "./times.js";

const SLIDING = 200;
const PARTS = 4; // of the slider, between two times each
const BACK = { "−15 min": 15, "−1 h": 60 }; // minutes

/** The seq and the time of a moment. */
export async function momentOf(asOf) {
  return (await get(`v1/diff?${new URLSearchParams({ from: asOf, to: asOf, limit: 1 })}`)).from;
}

/** The oldest seq of which the API can show the model. */
async function oldestSeq() {
  try {
    await momentOf(1);
    return 1;
  } catch (problem) {
    if (problem instanceof Problem && problem.document?.oldest_seq !== undefined) return problem.document.oldest_seq;
    throw problem;
  }
}

/** The times below the slider, and a mark for each change of the open entity, or for each that is a problem. */
function Scale({ ticks, changes, opened }) {
  const [oldest, head] = [ticks[0].seq, ticks.at(-1).seq];
  const at = (seq) => `${(100 * (seq - oldest)) / Math.max(1, head - oldest)}%`;
  const anchors = ["start", ...Array(PARTS - 1).fill("middle"), "end"];
  const marked = changes.filter((row) => row.seq >= oldest && row.seq <= head && (opened ? row.kind === opened.kind && row.id === opened.id : severity(row) !== "info"));
  return html`<svg class="scale" width="100%" height="24" role="img" aria-label=${`Times of the slider, and ${marked.length} marks of ${opened ? "its changes" : "problems"}`}>
    ${marked.map((row) => html`<rect key=${row.seq} class=${severity(row)} x=${at(row.seq)} width="2" height="8"><title>${clock(row.time)}</title></rect>`)}
    ${ticks.map(({ seq, time }, i) => html`<text key=${seq} x=${at(seq)} y="20" text-anchor=${anchors[i]}>${time ? when(time) : ""}</text>`)}
  </svg>`;
}

/**
 * Properties: asOf (a seq or a time as text; empty: now), moment ({seq, time}, once it is known), problem (why it is not
 * known), present (whether the view shows the present in any case), changes (the latest), opened (the entity),
 * onChange(asOf).
 */
export class AsOf extends Component {
  state = { oldest: null, head: null, ticks: [], at: null, problem: null };

  componentWillUnmount() {
    clearTimeout(this.sliding);
  }

  unfold = (event) => {
    if (event.currentTarget.open) this.ask();
  };

  ask = async () => {
    try {
      const head = (await get("v1/events?limit=1")).next_since;
      const oldest = await oldestSeq();
      const parts = head > oldest + PARTS ? [...Array(PARTS + 1).keys()] : [];
      const ticks = await Promise.all(parts.map((i) => momentOf(Math.round(oldest + (i * (head - oldest)) / PARTS))));
      this.setState({ oldest, head, ticks, problem: null });
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.setState({ problem });
    }
  };

  slide = (event) => {
    const at = event.target.value;
    this.setState({ at });
    clearTimeout(this.sliding);
    this.sliding = setTimeout(() => this.go(at), SLIDING);
  };

  go = (at) => {
    clearTimeout(this.sliding);
    this.setState({ at: null });
    this.props.onChange(Number(at) >= this.state.head ? "" : at);
  };

  /** @param value a time; before the oldest change there is none. The oldest moment has no time after a purge. */
  goToTime = (value) => {
    const { oldest, ticks } = this.state;
    const first = ticks.find(({ time }) => time);
    this.props.onChange(first && Date.parse(value) < Date.parse(first.time) ? String(oldest) : value);
  };

  back = (minutes) => {
    const { asOf, moment } = this.props;
    const from = asOf && moment?.time ? Date.parse(moment.time) : serverTime();
    this.goToTime(new Date(from - minutes * 60000).toISOString());
  };

  /** The fold closes over the button, so its head takes the focus. */
  end = (event) => {
    event.currentTarget.closest("details").firstElementChild.focus();
    this.go(String(this.state.head));
  };

  enter = (moment) => {
    this.entered = moment;
  };

  /** When the field is left, or at Enter: a browser reports each part of a time that is typed. */
  choose = (event) => {
    if (event.type === "keydown" && event.key !== "Enter") return;
    if (this.entered) this.goToTime(this.entered);
    this.entered = "";
  };

  render({ asOf, moment, present, problem: unknown, changes, opened }, { oldest, head, ticks, at, problem }) {
    const shown = at ?? (asOf && (moment?.seq ?? (Number(asOf) || "")));
    const wrong = unknown ?? problem;
    return html`<section class=${asOf ? "as-of past" : "as-of"} aria-label="Moment"><details open=${Boolean(asOf)} onToggle=${this.unfold}>
      <summary>At an earlier time</summary>
      ${head !== null && html`<div class="slider">
        <label><span class="sr">As of which change</span>
          <input type="range" min=${oldest} max=${head} value=${shown || head} aria-valuetext=${shown ? `change ${shown}` : "now"}
            onInput=${this.slide} />
          ${ticks.length > 0 && html`<${Scale} ticks=${ticks} changes=${changes} opened=${opened} />`}</label>
        <output>${shown ? html`#${number(Number(shown))} ${moment && at === null && html`<${Time} value=${moment.time} />`}` : "now"}</output>
        <span class="at" onFocusOut=${this.choose} onKeyDown=${this.choose}><${MomentField} title="At" id="as-of-time"
          value=${(asOf && moment?.time) || ""} onMoment=${this.enter} /></span>
        ${Object.entries(BACK).map(([title, minutes]) => html`<button key=${title} type="button" onClick=${() => this.back(minutes)}>${title}</button>`)}
        <button type="button" disabled=${!asOf} onClick=${this.end}>Now</button>
        ${asOf && present && html`<span class="note">This view shows the present.</span>`}
      </div>`}
      ${wrong && html`<p class="problem" role="alert">${wrong.message}</p>`}
    </details></section>`;
  }
}
