// SPDX-License-Identifier: Apache-2.0
// How entities are called. What is shown by its id asks for its name here; the API is asked for many at once.
import { Problem, getPages, listIn, query } from "./api.js";
import { Component, html } from "./html.js";

/** The field that has the name of an entity; a kind that is not here has `name`. */
export const NAME_FIELD = { provider_binding: "source", service_type_instance: "instance_name" };
const NAMELESS = new Set(["compute_node", "cluster", "provider"]);
const MOST = 50;
const KEPT = 5000;

export class Names {
  /**
   * @param pathOf gives the path of a kind's list; undefined where it is not known.
   * @param onNew  called when names became known.
   */
  constructor(pathOf, onNew) {
    this._pathOf = pathOf;
    this._onNew = onNew;
    this.forget();
  }

  forget() {
    this._known = new Map();
    this._wanted = new Map();
  }

  /** The name; null where it has none, undefined where it is not known yet. Then it is asked for. */
  of(kind, id) {
    const key = `${kind}/${id}`;
    if (NAMELESS.has(kind)) return null;
    const name = this._known.get(key);
    if (name === undefined && id) this._wanted.set(key, { kind, id });
    return name;
  }

  learn(kind, id, name) {
    if (this._known.size > KEPT) this._known.clear();
    this._known.set(`${kind}/${id}`, name);
    this._wanted.delete(`${kind}/${id}`);
  }

  /** Ask for those that were looked up in vain, each once. */
  async ask() {
    const byKind = new Map();
    for (const { kind, id } of this._wanted.values()) {
      if (!this._pathOf(kind)) continue;
      const ids = byKind.get(kind) || [];
      if (ids.length < MOST && !id.includes(",")) byKind.set(kind, [...ids, id]);
    }
    const answers = [...byKind].map(([kind, ids]) => this._askFor(kind, ids));
    if ((await Promise.all(answers)).some(Boolean)) this._onNew();
  }

  async _askFor(kind, ids) {
    const field = NAME_FIELD[kind] || "name";
    for (const id of ids) this.learn(kind, id, null);
    try {
      const path = this._pathOf(kind);
      const asked = { ids: ids.map(encodeURIComponent).join(","), fields: `id,${field}` };
      const found = await getPages(`${path}?${query(asked)}`, { pages: Infinity });
      for (const row of found[listIn(found)]) this.learn(kind, row.id, row[field] ?? null);
      return true;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      return false;
    }
  }
}

/** An entity by its name, where it has one; opens it. */
export class Ref extends Component {
  render({ kind, id, names, open, name }) {
    const known = name ?? names.of(kind, id);
    return html`<button type="button" class="link" title=${id} onClick=${() => open(kind, id)}>${known || id}</button>`;
  }
}
