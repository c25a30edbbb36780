// SPDX-License-Identifier: Apache-2.0
// The filters of a list as people write them, the same as on the command line (`watcher-sync entity list`):
//
//   state=error  state!=active  vcpus>4  vcpus<=4  name~web (it begins with web)  host in a,b  host not in a,b
//   labels[app]=web  state=neq:active (the API's own form)
//
// Spaces separate filters. A value with spaces stands between double quotes. A word alone is the beginning of a name.

const OPERATORS = { "=": "", "!=": "neq:", ">": "gt:", ">=": "gte:", "<": "lt:", "<=": "lte:", "~": "prefix:" };
const HEAD = /\s*([A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]+\])?)(?:\s*(!=|>=|<=|=|>|<|~)\s*|\s+(not\s+in|in)\s+)/y;
const VALUE = /(?:"(?:[^"]|"")*"|,\s+|[^\s"])+/y;
const SPACE = /\s*/y;

export class BadFilter extends Error {}

function take(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

function unquoted(text) {
  const whole = /^"((?:[^"]|"")*)"$/.exec(text);
  return whole ? whole[1].replaceAll('""', '"') : text;
}

/**
 * The parameters of the filters in a text, as pairs of name and value.
 *
 * @param name the field that has the name of an entity of this kind.
 * @throws BadFilter when a part of it is no filter.
 */
export function parseFilters(text, name = "name") {
  const found = [];
  let at = take(SPACE, text, 0)[0].length;
  while (at < text.length) {
    const head = take(HEAD, text, at);
    const from = head ? HEAD.lastIndex : at;
    const value = take(VALUE, text, from);
    if (!value) throw new BadFilter(`“${text.slice(at)}” is no filter: it has no value, or a quotation mark without its other half`);
    at = VALUE.lastIndex;
    if (!head) found.push([name, `prefix:${unquoted(value[0])}`]);
    else if (head[2]) found.push([head[1], OPERATORS[head[2]] + unquoted(value[0])]);
    else found.push([head[1], (head[3] === "in" ? "in:" : "nin:") + value[0].replace(/,\s+/g, ",")]);
    at += take(SPACE, text, at)[0].length;
  }
  return found;
}

/** The filter of exactly one value, as a person would write it. One such as `in:compute-1` begins like an operator. */
export function filterOf(field, value) {
  const text = /^[a-z]+:/.test(value) ? `eq:${value}` : value;
  return `${field}=${/[\s"]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text}`;
}
