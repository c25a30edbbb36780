// SPDX-License-Identifier: Apache-2.0
// The address of the page. `#/drifts` is a view, `#/table/instance?q=state%3Derror` a view with its settings, and
// `#/instance/<id>` an entity. An entity is open beside a view; the browser's history remembers which one. With
// `as_of=<seq or time>` in the address, view and entity are shown as they were.

export const VIEWS = {
  topology: "Topology",
  changes: "Changes",
  quarantine: "Quarantine",
  table: "Table",
  vnfs: "VNFs",
  services: "Services",
  drifts: "Drifts",
  leases: "Leases",
  held: "Held back",
  subscriptions: "Subscriptions",
  engines: "Engines",
};

/** The views of what the journal can show as it was; the others show the present. */
export const OF_THE_PAST = ["topology", "table", "vnfs", "services"];

const FIRST = { view: "topology", rest: "", settings: new URLSearchParams() };

function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [first, ...others] = path.split("/");
  const nowhere = { place: { view: "nowhere", rest: path, settings: new URLSearchParams() }, opened: null };
  let rest;
  try {
    rest = decodeURIComponent(others.join("/"));
  } catch {
    return nowhere;
  }
  if (Object.hasOwn(VIEWS, first)) return { place: { view: first, rest, settings: new URLSearchParams(query) }, opened: null };
  if (first && rest) return { place: null, opened: { kind: first, id: rest }, settings: new URLSearchParams(query) };
  return first ? nowhere : { place: FIRST, opened: null };
}

/** The view and the entity that the address names; the view is null where the history does not say which one. */
export function whereabouts() {
  const { place, opened, settings } = parse(location.hash);
  const asOf = (settings ?? place.settings).get("as_of") || "";
  const beside = place ?? parse(history.state?.view || "").place ?? FIRST;
  return { opened, asOf, place: { ...beside, settings: at(beside.settings, asOf) } };
}

/** Settings of a view at a moment. */
function at(settings, asOf) {
  const changed = new URLSearchParams(settings);
  if (asOf) changed.set("as_of", asOf);
  else changed.delete("as_of");
  return changed;
}

/** The address of an entity, as of a moment or now. */
export const addressOfEntity = ({ kind, id }, asOf) =>
  `#/${kind}/${encodeURIComponent(id)}${asOf ? `?${new URLSearchParams({ as_of: asOf })}` : ""}`;

/** The address of a view. */
export function addressOf({ view, rest = "", settings = null }) {
  const query = settings ? new URLSearchParams(settings).toString() : "";
  return `#/${view}${rest ? `/${encodeURIComponent(rest)}` : ""}${query ? `?${query}` : ""}`;
}

const moved = () => window.dispatchEvent(new Event("moved"));

/** Open an entity beside the view that is shown. */
export function open(kind, id) {
  const { place, asOf } = whereabouts();
  history.pushState({ view: addressOf(place) }, "", addressOfEntity({ kind, id }, asOf));
  moved();
}

/** Show what is shown as of another moment; empty: the present. */
export function goTo(asOf) {
  const { place, opened } = whereabouts();
  const view = addressOf({ ...place, settings: at(place.settings, asOf) });
  history.replaceState(opened ? { view } : null, "", opened ? addressOfEntity(opened, asOf) : view);
  moved();
}

/** Show a view; an open entity is closed. */
export function show(place, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", addressOf(place));
  moved();
}
