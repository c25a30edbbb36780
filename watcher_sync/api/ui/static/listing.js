// SPDX-License-Identifier: Apache-2.0
// A list of the API as a table: filters, sorting, pages by marker. What it shows is asked for again soon after a change
// of its kind.
import { Asking } from "./asking.js";
import { Problem, get, listIn } from "./api.js";
import { BadFilter, parseFilters } from "./filters.js";
import { createRef, html, Trouble } from "./html.js";
import { number, words } from "./format.js";
import { recall, remember } from "./remembered.js";
import { rove, settleIn } from "./roving.js";
import { describe } from "./schema.js";

const SIZES = [25, 50, 100, 200, 500];
const PAGE = 50;
const STEPS = "tbody .link, tbody .copy"; // of the arrow keys
const TYPING = 300;

function Head({ column, sort, sortable, onSort }) {
  const { field, title } = column;
  const now = sort === field ? "ascending" : sort === `-${field}` ? "descending" : null;
  if (!sortable) return html`<th scope="col">${title ?? words(field)}</th>`;
  return html`<th scope="col" aria-sort=${now}>
    <button type="button" class="sort" onClick=${() => onSort(now === "ascending" ? `-${field}` : field)}>
      ${title ?? words(field)}<span class=${now ? "arrow on" : "arrow"} aria-hidden="true">${now === "ascending" ? "↑" : now ? "↓" : "↕"}</span></button></th>`;
}

function Fields({ filters, id }) {
  const entries = Object.entries(filters);
  if (!entries.length) return null;
  return html`<details class="help" id=${id}>
    <summary>Fields and operators</summary>
    <p>field=value, or with ${"!= < <= > >="} ~ (begins with), in a,b or not in a,b. Spaces separate filters; a
      value with spaces stands between double quotes. A word alone is the beginning of a name. Without a chosen order,
      each page of a table has its problems first.</p>
    <dl>${entries.map(([name, form]) => html`<div key=${name}><dt><code>${name}</code></dt><dd>${form.split(", alone or after ")[0]}</dd></div>`)}</dl>
  </details>`;
}

function Chooser({ columns, choose }) {
  const shown = columns.filter((column) => column.shown).map((column) => column.field);
  const turn = (field) => choose(shown.includes(field) ? shown.filter((one) => one !== field) : [...shown, field]);
  return html`<details class="help columns"><summary>Columns</summary><div>${columns.map(({ field }) => html`<label key=${field}>
    <input type="checkbox" checked=${shown.includes(field)} onChange=${() => turn(field)} /> ${words(field)}</label>`)}</div></details>`;
}

/** A button that keeps the focus at the end of the pages, where it does nothing. */
const Step = ({ title, off, turn }) =>
  html`<button type="button" aria-disabled=${off ? "true" : null} onClick=${() => off || turn()}>${title}</button>`;

/**
 * Properties: kind, path, names, columns ({field, title, cell, optional, shown}), choose(fields: the optional ones to show),
 * settings (of the address), onSettings(parameters), watch, more (asked for beside each page: async (rows, asOf) =>
 * state), arrange (the rows of a page in the order to show, where none was chosen), total (entities of the kind).
 */
const read = (settings) => ({ filter: settings.get("q") || "", sort: settings.get("sort") || "", asOf: settings.get("as_of") || "" });

export class Listing extends Asking {
  box = createRef();
  state = { size: recall("rows") ?? PAGE,  problem: null, rows: null, from: 0, next: null, markers: [], typed: null, wrong: "", filters: {}, sorts: new Set() };

  concerns(row) {
    return row.kind === this.props.kind && !read(this.props.settings).asOf;
  }

  componentDidUpdate(before) {
    settleIn(this.box.current, STEPS);
    const { settings, path } = this.props;
    if (before.path !== path) this.setState({ rows: null, filters: {}, sorts: new Set() });
    if (before.settings.toString() === settings.toString() && before.path === path) return;
    this.setState({ markers: [], typed: before.path === path ? this.state.typed : null }, this.ask);
  }

  async load() {
    const { kind, path, settings, more, names } = this.props;
    const { filter, sort, asOf } = read(settings);
    if (!path) return {};
    describe(path).then((found) => path === this.props.path && this.setState(found));
    const asked = new URLSearchParams({ limit: this.state.size });
    try {
      for (const [name, value] of parseFilters(filter, names.fields[kind] ?? "id")) {
        asked.append(name, value);
      }
    } catch (error) {
      if (!(error instanceof BadFilter)) throw error;
      return { wrong: error.message };
    }
    if (sort) asked.set("sort", sort);
    if (asOf) asked.set("as_of", asOf);
    const { marker, from } = this.state.markers.at(-1) ?? { marker: null, from: 0 };
    if (marker) asked.set("marker", marker);
    try {
      const page = await get(`${path}?${asked}`);
      const rows = page[listIn(page)];
      return { wrong: "", rows, from, next: page.next_marker, ...(more ? await more(rows, asOf) : {}) };
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 400) throw error;
      return { wrong: error.message };
    }
  }

  type = (event) => {
    const typed = event.target.value;
    this.setState({ typed });
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.settle(typed), TYPING);
  };

  settle = (typed) => {
    clearTimeout(this.typing);
    if (typed !== read(this.props.settings).filter) this.change({ filter: typed });
  };

  sortBy = (sort) => this.change({ sort });

  change(some) {
    const { filter, sort } = { ...read(this.props.settings), ...some };
    this.props.onSettings({ ...(filter && { q: filter }), ...(sort && { sort }) });
  }

  resize = (event) => {
    const size = Number(event.target.value);
    remember("rows", size);
    this.setState({ size, markers: [] }, this.ask);
  };

  turn = (markers) => this.setState({ markers }, this.ask);

  componentWillUnmount() {
    clearTimeout(this.typing);
    super.componentWillUnmount();
  }

  /** Which rows a page has, and of how many; the API counts no matches of a filter. */
  extent(filter) {
    const { rows, from, next } = this.state;
    if (!rows.length) return "none";
    const last = from + rows.length;
    const all = next ? (filter ? undefined : this.props.total) : last;
    return `${number(from + 1)} to ${number(last)}${all >= last ? ` of ${number(all)}` : ""}`;
  }

  render({ kind, columns, choose, settings, path, names, arrange }, { rows, next, markers, size, problem, typed, wrong, filters, sorts, from, ...more }) {
    const { filter, sort } = read(settings);
    const all = columns(rows || []);
    const optional = all.filter((column) => column.optional);
    const shown = all.filter((column) => !column.optional || column.shown);
    const ordered = rows && arrange && !sort ? arrange(rows) : rows;
    return html`
      <form class="filter" role="search" onSubmit=${(event) => { event.preventDefault(); this.settle(typed ?? filter); }}>
        <label for="filter">Filter</label>
        <input id="filter" type="search" spellcheck="false" autocomplete="off" autocapitalize="off" maxlength="2000"
          placeholder="state=error  name~web  labels[app]=web" value=${typed ?? filter} onInput=${this.type}
          aria-invalid=${wrong ? "true" : null} aria-describedby=${wrong ? "filter-wrong" : null} />
      </form>
      ${wrong && html`<p class="problem" id="filter-wrong" role="alert">${wrong}</p>`}
      ${problem && html`<${Trouble} problem=${problem} refused=${`${names.title(kind)} are not for this token.`} />`}
      <div class="helps"><${Fields} filters=${filters} id="filter-help" />
        ${optional.length > 0 && html`<${Chooser} columns=${optional} choose=${choose} />`}</div>
      ${!rows && !problem && !wrong && html`<p class="none">${path ? "Loading…" : "There is no such kind."}</p>`}
      ${rows && !rows.length && html`<p class="none" role="status">${filter ? "Nothing matches the filter." : "There are none."}</p>`}
      ${rows?.length > 0 &&
      html`<table class="data" data-kind=${kind} ref=${this.box} onKeyDown=${(event) => rove(event, STEPS)}>
          <caption class="sr">${names.plural(kind)}</caption>
          <thead><tr>${shown.map((column) => html`<${Head} key=${column.field} column=${column} sort=${sort || (arrange ? "" : "id")}
            sortable=${sorts.has(column.field)} onSort=${this.sortBy} />`)}</tr></thead>
          <tbody>${ordered.map(
            (row) => html`<tr key=${row.id} data-id=${row.id}>${shown.map((column, i) =>
              i === 0
                ? html`<th scope="row">${column.cell(row, more)}</th>`
                : html`<td data-label=${column.title ?? words(column.field)}>${column.cell(row, more)}</td>`,
            )}</tr>`,
          )}</tbody>
        </table>`}
      ${rows && (rows.length > 0 || markers.length > 0) &&
      html`<nav class="pages" aria-label="Pages">
        <label>Rows <select id="rows" onChange=${this.resize}>${SIZES.map((one) => html`<option key=${one} value=${one}
          selected=${one === size}>${one}</option>`)}</select></label>
        <${Step} title="First" off=${!markers.length} turn=${() => this.turn([])} />
        <${Step} title="Previous" off=${!markers.length} turn=${() => this.turn(markers.slice(0, -1))} />
        <span role="status">${this.extent(filter)}</span>
        <${Step} title="Next" off=${!next} turn=${() => this.turn([...markers, { marker: next, from: from + rows.length }])} />
      </nav>`}`;
  }
}
