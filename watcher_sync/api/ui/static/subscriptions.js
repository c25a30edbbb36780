// SPDX-License-Identifier: Apache-2.0
// Subscriptions and how far their webhooks are, those with problems first. A caller who may not list them sees no table.
import { html, Pure, Trouble } from "./html.js";
import { number, span, when } from "./format.js";

const STATES = { active: "good", suspended: "bad", gone: "off" };

/** What the last attempt came to: a figure as text, and whether it was a failure. */
export function outcome(subscription) {
  const code = subscription["last-notify-status"];
  if (subscription["last-notify-time"] === null) return { text: "—", failed: false };
  if (code === 0) return { text: "no answer", failed: true };
  return { text: String(code), failed: code < 200 || code > 299 };
}

/** Suspended ones first, then failing ones, then the latest, then by name. */
export function sorted(subscriptions) {
  const rank = (one) => (one.state === "suspended" ? 0 : one.state === "gone" ? 3 : outcome(one).failed ? 1 : 2);
  return [...subscriptions].sort(
    (a, b) => rank(a) - rank(b) || b.lag - a.lag || a.name.localeCompare(b.name) || a.id.localeCompare(b.id),
  );
}

class Row extends Pure {
  render({ one, name, aged, open }) {
    const { text, failed } = outcome(one);
    const next = one["next-attempt-time"];
    const lag = one.lag > 0 && one.state === "active" ? one.lag + aged : one.lag;
    return html`
      <tr class=${`subscription ${one.state}`} data-id=${one.id}>
        <th scope="row" title=${one["callback-url"]}>${one.name}</th>
        <td data-label="Instance" class="instance"><button type="button" class="link" title=${one["instance-id"]}
          onClick=${() => open(one["instance-kind"], one["instance-id"])}>${name || one["instance-id"]}</button></td>
        <td data-label="State"><span class=${`state ${STATES[one.state] || "off"}`}>${one.state}</span>
          ${one.reason && html` <span class="reason">${one.reason}</span>`}</td>
        <td data-label="Last code" class=${failed ? "code failed" : "code"}
          title=${one["last-notify-time"] && when(one["last-notify-time"])}>${text}</td>
        <td data-label="Lag" class="lag">${lag > 0 ? span(lag) : "0 s"}</td>
        <td data-label="Next attempt">${
          next && one.state === "active" ? html`<time datetime=${next} title=${next}>${when(next)}</time>` : "—"
        }</td>
      </tr>`;
  }
}

/** Whether the caller may list subscriptions, as far as the page knows. */
export const mayList = (subscriptions, problem) =>
  problem ? problem.status !== 401 && problem.status !== 403 : subscriptions !== null;

export class Subscriptions extends Pure {
  render({ subscriptions, problem, at, names, open }) {
    if (!mayList(subscriptions, problem)) return null;
    const rows = sorted(subscriptions?.subscriptions || []);
    const suspended = rows.filter((one) => one.state === "suspended").length;
    const more = subscriptions?.more ? "+" : "";
    return html`
      <section class="subscriptions pane" aria-labelledby="subscriptions-title">
        <header class="pane-head">
          <h2 id="subscriptions-title">Subscriptions</h2>
          ${suspended > 0 && html`<span class="figure alarming">${number(suspended)} suspended</span>`}
          ${subscriptions && html`<span class="figure">${number(rows.length)}${more}</span>`}
        </header>
        <div class="pane-body">
          ${problem && html`<${Trouble} problem=${problem} />`}
          ${subscriptions && !rows.length && html`<p class="none">No subscriptions: no webhook is delivered.</p>`}
          ${rows.length > 0 &&
          html`<table class="data">
            <caption class="sr">Subscriptions</caption>
            <thead><tr>
              <th scope="col">Name</th><th scope="col">Instance</th><th scope="col">State</th>
              <th scope="col">Last code</th><th scope="col" class="lag">Lag</th><th scope="col">Next attempt</th>
            </tr></thead>
            <tbody>
              ${rows.map(
                (one) => html`<${Row} key=${one.id} one=${one} aged=${one.lag > 0 ? Math.floor((Date.now() - at) / 1000) : 0} open=${open}
                  name=${names.of(one["instance-kind"], one["instance-id"])} />`,
              )}
            </tbody>
          </table>`}
          ${more && html`<p class="more">The first ${number(rows.length)} are listed; the command line has all.</p>`}
        </div>
      </section>`;
  }
}
