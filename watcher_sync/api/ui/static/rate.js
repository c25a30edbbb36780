// SPDX-License-Identifier: Apache-2.0
// Events a second over the last five minutes, drawn by uPlot. The figures are there as text as well.
/* global uPlot */
import { createRef, html, Component } from "./html.js";
import { number, shortClock } from "./format.js";
import { WINDOW } from "./state.js";

const HEIGHT = 104;
const KINDS = 4; // whose rates are shown
const LATELY = 5; // seconds

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const sum = (kinds) => Object.values(kinds ?? {}).reduce((all, n) => all + n, 0);

/** Events a second of each kind in the last seconds, most first. */
export function byKind(rates, now, seconds = LATELY) {
  const all = {};
  for (let second = Math.floor(now) - seconds; second < Math.floor(now); second += 1) {
    for (const [kind, n] of Object.entries(rates.get(second) ?? {})) all[kind] = (all[kind] || 0) + n / seconds;
  }
  return Object.entries(all).sort((a, b) => b[1] - a[1]);
}

/** One figure for each second; null before anything is known. */
export function series(rates, from, now) {
  const last = Math.floor(now) - 1; // the second that runs is not over
  const times = [];
  const values = [];
  for (let second = last - WINDOW + 1; second <= last; second += 1) {
    times.push(second);
    values.push(second < Math.floor(from) ? null : sum(rates.get(second)));
  }
  return [times, values];
}

export class Rate extends Component {
  box = createRef();
  state = { now: 0, peak: 0, kinds: [] };

  componentDidMount() {
    this.make();
    this.timer = setInterval(() => this.tick(), 1000);
    this.sized = new ResizeObserver(() => this.plot?.setSize({ width: this.box.current.clientWidth, height: HEIGHT }));
    this.sized.observe(this.box.current);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.scheme.addEventListener("change", this.make);
    document.addEventListener("themechange", this.make);
  }

  componentWillUnmount() {
    clearInterval(this.timer);
    this.sized.disconnect();
    this.scheme.removeEventListener("change", this.make);
    document.removeEventListener("themechange", this.make);
    this.plot?.destroy();
  }

  /** A canvas knows no style sheet: made anew with every change of colours. */
  make = () => {
    this.plot?.destroy();
    const font = "11px system-ui, sans-serif";
    const axis = { stroke: colour("--faint"), font, ticks: { show: false }, grid: { stroke: colour("--line"), width: 1 } };
    const options = {
      width: this.box.current.clientWidth,
      height: HEIGHT,
      padding: [8, 22, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: { y: { range: (_, __, most) => [0, Math.max(4, (most || 0) * 1.15)] } },
      axes: [
        { ...axis, size: 20, gap: 4, space: 80, values: (_, splits) => splits.map((second) => shortClock(second * 1000)), incrs: [60, 120, 300] },
        { ...axis, size: 38, gap: 4, space: 24, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000] },
      ],
      series: [{}, { stroke: colour("--accent"), fill: colour("--accent-wash"), width: 1.25, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) }],
    };
    this.plot = new uPlot(options, this.data(), this.box.current);
  };

  data() {
    const { rates, from } = this.props.source();
    return series(rates, from, Date.now() / 1000);
  }

  tick() {
    if (document.hidden) return;
    const { rates } = this.props.source();
    const data = this.data();
    for (const second of rates.keys()) if (second < data[0][0]) rates.delete(second);
    this.plot.setData(data);
    const known = data[1].filter((value) => value !== null);
    const kinds = byKind(rates, Date.now() / 1000, Math.max(1, Math.min(LATELY, known.length)));
    const now = kinds.reduce((all, [, n]) => all + n, 0);
    this.setState({ now: Math.round(now * 10) / 10, peak: Math.max(0, ...known), kinds });
  }

  render({ names }, { now, peak, kinds }) {
    return html`
      <section class="rate pane" aria-labelledby="rate-title">
        <header class="pane-head">
          <h2 id="rate-title">Events a second</h2>
          <span class="note"><b>${number(now)}</b> now · ${number(peak)} at most in 5 min</span>
        </header>
        <div class="plot" ref=${this.box} role="img" aria-label=${`Events a second: ${now} now, ${peak} at most in the last five minutes`}></div>
        ${kinds.length > 0 && html`<p class="note by-kind">${kinds.slice(0, KINDS).map(([kind, n], i) => html`${i > 0 && " · "}<span key=${kind}>${names.plural(kind)} <b>${n < 10 ? Math.round(n * 10) / 10 : number(Math.round(n))}</b>/s</span>`)}${kinds.length > KINDS && ` and ${kinds.length - KINDS} more`}</p>`}
      </section>`;
  }
}
