// SPDX-License-Identifier: Apache-2.0
// What kinds declare: what they and their entities are called, and which fields refer to entities. What is shown by its
// id asks for its name here; the API is asked for many at once.
import { Problem, getPages, listIn, projects, query } from "./api.js";
import { html } from "./html.js";
import { number, words } from "./format.js";
import { addressOfEntity, whereabouts } from "./router.js";

const MOST = 50;
const KEPT = 5000;

export class Names {
  /**
   * @param onNew called when names became known.
   * @param isPast whether the past is shown: the names are those of the present.
   */
  constructor(onNew, isPast) {
    this._onNew = onNew;
    this._isPast = isPast;
    this.declare({ kinds: {}, names: {}, references: {} });
    this.forget();
  }

  /** What `GET /v1` says of the kinds. */
  declare({ kinds, names, references }) {
    Object.assign(this, { paths: kinds, fields: names, references });
  }

  /** What a field of a kind refers to: `{kind, or_kinds, relation}`; undefined: it refers to nothing. */
  reference(kind, field) {
    return this.references[kind]?.[field];
  }

  /** The fields by which entities of one kind name those of another that they need. */
  fieldsTo(kind, needed) {
    const declared = Object.entries(this.references[kind] || {});
    return declared.filter(([, one]) => [one.kind, ...(one.or_kinds || [])].includes(needed) && !one.lists_dependents).map(([field]) => field);
  }

  /** Of some kinds the one whose entity has an id, as far as it is known. */
  kindOf(kinds, id) {
    return kinds.find((kind) => this.of(kind, id) !== false) ?? kinds[0];
  }

  /** A kind in words: "storage pools". */
  plural(kind) {
    return words(this.paths[kind]?.split("/").at(-1) ?? `${kind}s`);
  }

  title(kind) {
    const text = this.plural(kind);
    return text.charAt(0).toUpperCase() + text.slice(1);
  }

  count(n, kind) {
    return `${number(n)} ${n === 1 ? words(kind) : this.plural(kind)}`;
  }

  forget() {
    this._projects = projects();
    this._known = new Map();
    this._wanted = new Map();
  }

  /** The name; null where it has none, undefined where it is not known yet. Then it is asked for. */
  of(kind, id) {
    const key = `${kind}/${id}`;
    const name = this._known.get(key);
    if (name === undefined && id) this._wanted.set(key, { kind, id });
    return name;
  }

  /** The name of the project that a field names by its id, as far as a login gave it. */
  project(field, id) {
    return field === "project_id" ? this._projects[id] : undefined;
  }

  /** Why an entity cannot be opened; empty: it can be, as far as it is known. */
  absence(kind, id) {
    if (!this.paths[kind]) return `The kind ${words(kind)} is not installed`;
    return this.of(kind, id) === false && !this._isPast() ? "The model does not have it" : "";
  }

  /** @param name false where there is no such entity. */
  learn(kind, id, name) {
    if (this._known.size > KEPT) this._known.clear();
    this._known.set(`${kind}/${id}`, name);
    this._wanted.delete(`${kind}/${id}`);
  }

  /** Ask for those that were looked up in vain, each once. */
  async ask() {
    const byKind = new Map();
    for (const { kind, id } of this._wanted.values()) {
      if (!this.paths[kind]) continue;
      const ids = byKind.get(kind) || [];
      if (ids.length < MOST && !id.includes(",")) byKind.set(kind, [...ids, id]);
    }
    const answers = [...byKind].map(([kind, ids]) => this._askFor(kind, ids));
    if ((await Promise.all(answers)).some(Boolean)) this._onNew();
  }

  async _askFor(kind, ids) {
    const field = this.fields[kind];
    for (const id of ids) this.learn(kind, id, null);
    try {
      const asked = { ids: ids.map(encodeURIComponent).join(","), fields: field ? `id,${field}` : "id" };
      const found = await getPages(`${this.paths[kind]}?${query(asked)}`, { pages: Infinity });
      for (const id of ids) this.learn(kind, id, false);
      for (const row of found[listIn(found)]) this.learn(kind, row.id, row[field] ?? null);
      return true;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      return false;
    }
  }
}

/** An entity by its name, where it has one; opens it, where there is one. It is of the first kind or of one of others. */
export function Ref({ kind: first, others, id, names, open, name }) {
  const kind = others ? names.kindOf([first, ...others], id) : first;
  const known = name ?? names.of(kind, id);
  const absence = name ? "" : names.absence(kind, id);
  if (absence) return html`<span title=${absence}>${id}</span>`;
  const beside = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // another tab
    event.preventDefault();
    open(kind, id);
  };
  return html`<a class="link" href=${addressOfEntity({ kind, id }, whereabouts().asOf)} title=${id} onClick=${beside}>${known || id}</a>`;
}

/** The value of a field that is a reference: one id, or a list of them. */
export function Refs({ kind, others, value, names, open, most = MOST }) {
  const ids = Array.isArray(value) ? value : [value];
  return html`<span>${ids.slice(0, most).map((id, i) => html`${i > 0 && ", "}<${Ref} key=${id} kind=${kind} others=${others} id=${id} names=${names} open=${open} />`)}${
    ids.length > most && ` and ${number(ids.length - most)} more`}</span>`;
}
