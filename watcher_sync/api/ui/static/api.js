// SPDX-License-Identifier: Apache-2.0
// The REST API: every request of the page goes through here. The token lives in this tab only.

const TOKEN = "watcher-sync-token";

export function token() {
  try {
    return sessionStorage.getItem(TOKEN) || "";
  } catch {
    return "";
  }
}

export function setToken(value) {
  try {
    if (value) sessionStorage.setItem(TOKEN, value);
    else sessionStorage.removeItem(TOKEN);
  } catch {
    // No storage, no token.
  }
}

/** An answer that is an error; status 0 where there was none at all. */
export class Problem extends Error {
  constructor(status, detail, retryAfter = 0) {
    super(detail);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

export function headers(more = {}) {
  const sent = token();
  return sent ? { ...more, "X-Auth-Token": sent } : more;
}

/** What a response that is an error says, in one line. */
export async function problemOf(response) {
  let detail = `${response.status} ${response.statusText}`;
  try {
    detail = (await response.json()).detail || detail;
  } catch {
    // Not ours, a proxy's.
  }
  return new Problem(response.status, detail, Number(response.headers.get("Retry-After")) || 0);
}

/** GET a JSON document; the path is relative to the page, so that it works below a prefix. */
export async function get(path, { signal } = {}) {
  let response;
  try {
    response = await fetch(path.replace(/^\//, ""), { headers: headers({ Accept: "application/json" }), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The API cannot be reached");
  }
  if (!response.ok) throw await problemOf(response);
  return response.json();
}

/** GET a list page by page, at most so many: the first document with the rows of all, and `next` if there are more. */
export async function getPages(path, list, most = 20) {
  const first = await get(path);
  const rows = [...first[list]];
  let next = first.next;
  for (let pages = 1; next && pages < most; pages += 1) {
    const page = await get(`${path}${new URL(next, document.baseURI).search}`);
    rows.push(...page[list]);
    next = page.next;
  }
  return { ...first, [list]: rows, next };
}

export const query = (parameters) => new URLSearchParams(parameters).toString();
