// SPDX-License-Identifier: Apache-2.0
// The engines: which one of each group leads, which ones stand by, and how far each is behind. Below them, the outlets
// that publish on a log.
import { html, Pure, Trouble } from "./html.js";
import { clock, number, span, when } from "./format.js";
import { Time } from "./times.js";

/** Seconds without a heartbeat after which an engine that says it leads is taken for dead. */
export const SILENT = 15;

const silentFor = (engine, at) => (at - Date.parse(engine.heartbeat_at)) / 1000;

/** The groups in which no engine leads, judged at a time of the server's clock. */
export function leaderless(engines, at) {
  const groups = new Map();
  const running = engines.filter(({ state }) => state !== "stopped");
  for (const engine of running.length ? running : engines) {
    const leads = engine.state === "leading" && silentFor(engine, at) < SILENT;
    groups.set(engine.group, (groups.get(engine.group) || false) || leads);
  }
  return [...groups].filter(([, leads]) => !leads).map(([group]) => group);
}

const ENDED = ["gone", "stopped"];

/** What one engine does: how it looks, and a word. */
function doing({ state, heartbeat_at }, at, unknown) {
  if (ENDED.includes(state)) return [state === "gone" ? "bad" : "off", state];
  if (unknown) return ["unknown", `unknown, was ${state}`];
  if (silentFor({ heartbeat_at }, at) >= SILENT) return ["bad", `silent, was ${state}`];
  return [state === "leading" ? "good" : "off", state];
}

/** That none runs, and how the last one ended. */
function Ended({ engines }) {
  const [last] = [...engines].sort((a, b) => Date.parse(b.heartbeat_at) - Date.parse(a.heartbeat_at));
  return html`<p class="problem">No engine runs. ${last.state === "stopped" ? `The last one was stopped at ${when(last.since)}.`
    : `The last one was not stopped: its last heartbeat is of ${when(last.since)}.`}</p>`;
}

/** Properties: engines, outlets, problem, answered (when they were last known), at; times of the server's clock. */
export class Engines extends Pure {
  render({ engines, outlets, problem, answered, at }) {
    const unknown = Boolean(problem && problem.status !== 403);
    return html`
      <section class="engines pane" aria-labelledby="engines-title">
        <header class="pane-head"><h2 id="engines-title">Engines</h2>
          ${engines && html`<span class="figure">${number(engines.length)}</span>`}</header>
        <div class="pane-body">
          <p class="about">One engine of each group leads: it takes events in and writes the model. The others stand by and take
            over when its heartbeat stops.</p>
          ${problem && !unknown && html`<${Trouble} problem=${problem} refused="The engines are for administrators." />`}
          ${unknown && html`<p class="problem" role="alert">${problem.message}. What the engines do is not known${answered > 0 && ` since ${clock(answered)}`}.</p>`}
          ${engines && !unknown && !engines.length && html`<p class="problem">No engine has run with this database yet.</p>`}
          ${engines?.length > 0 && !unknown && engines.every(({ state }) => ENDED.includes(state)) && html`<${Ended} engines=${engines} />`}
          ${engines?.length > 0 && html`<table class="data">
            <caption class="sr">Engines</caption>
            <thead><tr><th scope="col">Engine</th><th scope="col">Group</th><th scope="col">State</th><th scope="col">Heartbeat</th>
              <th scope="col">Seq</th><th scope="col">Behind by</th><th scope="col">Release</th><th scope="col">Sources</th></tr></thead>
            <tbody>${engines.map((one) => {
              const [look, word] = doing(one, at, unknown);
              return html`<tr key=${`${one.group}/${one.host}/${one.pid}`}>
                <th scope="row">${one.host}<span class="sub">pid ${one.pid}</span></th>
                <td data-label="Group">${one.group}</td>
                <td data-label="State"><span class=${`state ${look}`}>${word}</span>
                  <span class="sub">since <${Time} value=${one.since} /></span></td>
                <td data-label="Heartbeat"><${Time} value=${one.heartbeat_at} /></td>
                <td data-label="Seq">${one.seq === null || one.seq === undefined ? "—" : `#${number(one.seq)}`}</td>
                <td data-label="Behind by">${one.lag_seconds === null || one.lag_seconds === undefined ? "—" : span(one.lag_seconds)}</td>
                <td data-label="Release">${one.release}</td>
                <td data-label="Sources">${(one.sources || []).join(", ") || "—"}</td>
              </tr>`;
            })}</tbody>
          </table>`}
          ${outlets?.length > 0 && html`<${Outlets} outlets=${outlets} />`}
        </div>
      </section>`;
  }
}

const GOOD = ["publishing", "snapshot"];

class Outlets extends Pure {
  render({ outlets }) {
    return html`<table class="data outlets">
      <caption>Outlets that publish on a log</caption>
      <thead><tr><th scope="col">Outlet</th><th scope="col">Partition</th><th scope="col">State</th><th scope="col">Published</th>
        <th scope="col">Behind by</th><th scope="col">Machine</th></tr></thead>
      <tbody>${outlets.map((one) => html`<tr key=${one.outlet}>
        <th scope="row">${one.outlet}<span class="sub">${one.driver}</span></th>
        <td data-label="Partition">${one.partition}</td>
        <td data-label="State"><span class=${`state ${GOOD.includes(one.state) ? "good" : one.state === "stopped" ? "off" : "bad"}`}>${one.state}</span>
          <span class="sub">${one.detail || html`since <${Time} value=${one.since} />`}</span></td>
        <td data-label="Published">#${number(one.published_seq)}</td>
        <td data-label="Behind by">${number(one.lag)} changes, ${span(one.lag_seconds)}</td>
        <td data-label="Machine">${one.host}<span class="sub">pid ${one.pid}</span></td>
      </tr>`)}</tbody>
    </table>`;
  }
}
