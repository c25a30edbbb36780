// SPDX-License-Identifier: Apache-2.0
// The moment that the page shows: a slider over the journal, from the oldest change that it still has to the latest.
import { Problem, get } from "./api.js";
import { Component, html } from "./html.js";
import { number } from "./format.js";
import { Time } from "./times.js";

const SLIDING = 200;

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

/**
 * Properties: asOf (a seq or a time as text; empty: now), moment ({seq, time}, once it is known), problem (why it is not
 * known), present (whether the view shows the present in any case), onChange(asOf).
 */
export class AsOf extends Component {
  state = { oldest: null, head: null, at: null, problem: null };

  componentDidMount() {
    if (this.props.asOf) this.ask();
  }

  componentDidUpdate(before) {
    if (this.props.asOf && !before.asOf && this.state.head === null) this.ask();
  }

  componentWillUnmount() {
    clearTimeout(this.sliding);
  }

  unfold = (event) => {
    if (event.currentTarget.open) this.ask();
  };

  ask = async () => {
    try {
      const head = (await get("v1/events?limit=1")).next_since;
      this.setState({ oldest: await oldestSeq(), head, problem: null });
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

  render({ asOf, moment, present, problem: unknown }, { oldest, head, at, problem }) {
    const shown = at ?? (asOf && (moment?.seq ?? asOf));
    const wrong = unknown ?? problem;
    return html`<section class=${asOf ? "as-of past" : "as-of"} aria-label="Moment"><details open=${Boolean(asOf)} onToggle=${this.unfold}>
      <summary>As of then</summary>
      ${head !== null && html`<div class="slider">
        <label><span class="sr">As of which change</span>
          <input type="range" min=${oldest} max=${head} value=${shown || head} aria-valuetext=${shown ? `change ${shown}` : "now"}
            onInput=${this.slide} /></label>
        <output>${shown ? html`#${number(Number(shown))} ${moment && at === null && html`<${Time} value=${moment.time} />`}` : "now"}</output>
        <button type="button" disabled=${!asOf} onClick=${() => this.go(String(head))}>Now</button>
        ${asOf && present && html`<span class="note">This view shows the present.</span>`}
      </div>`}
      ${wrong && html`<p class="problem" role="alert">${wrong.message}</p>`}
    </details></section>`;
  }
}
