// SPDX-License-Identifier: Apache-2.0
// The REST API: every request of the page goes through here. The token lives in this tab only.
import { parse } from "./exact.js";

const TOKEN = "watcher-sync-token";
const SESSION = "watcher-sync-session";
const PROJECTS = "watcher-sync-projects";

function stored(name) {
  try {
    return sessionStorage.getItem(name) || "";
  } catch {
    return "";
  }
}

function store(name, value) {
  try {
    if (value) sessionStorage.setItem(name, value);
    else sessionStorage.removeItem(name);
  } catch {
    // No storage, no token.
  }
}

export const token = () => stored(TOKEN);

function read(name) {
  try {
    return JSON.parse(stored(name));
  } catch {
    return null;
  }
}

/** What a login gave beside its token: user, project and domains, expires_at; null for a token that was entered. */
export const session = () => read(SESSION);

/** Id -> name of the projects that the login gave. */
export const projects = () => read(PROJECTS) ?? {};

export function setToken(value, login = null) {
  const { projects: named = null, ...about } = login ?? {};
  first = null;
  store(TOKEN, value);
  store(SESSION, login && JSON.stringify(about));
  store(PROJECTS, named && JSON.stringify(named));
}

/** An answer that is an error; status 0 where there was none at all. */
export class Problem extends Error {
  constructor(status, detail, retryAfter = 0, document = null) {
    super(detail);
    this.status = status;
    this.retryAfter = retryAfter;
    this.document = document;
  }
}

export function headers(more = {}) {
  const sent = token();
  return sent ? { ...more, "X-Auth-Token": sent } : more;
}

/** The JSON of a response. What has none is not of the API: a proxy answered, or the answer was cut. */
async function documentOf(response) {
  try {
    return parse(await response.text());
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const type = response.headers.get("Content-Type") ?? "nothing";
    throw new Problem(0, error instanceof SyntaxError ? `Another server than the API answered, with ${type}` : "The connection was cut");
  }
}

/** What a response that is an error says, in one line. */
export async function problemOf(response) {
  let document = null;
  try {
    document = await documentOf(response);
  } catch {
    // Not ours, a proxy's.
  }
  const detail = document?.detail || `Status ${response.status} ${response.statusText}`.trim();
  return new Problem(response.status, detail, Number(response.headers.get("Retry-After")) || 0, document);
}

let ahead = 0;

/** The server's clock, in milliseconds, by the last answer that said it. */
export const serverTime = () => Date.now() + ahead;

const OPEN = ["v1", "v1/login", "openapi.json"];

/** Without a token: whether the API needs one, asked by a question that costs little. */
let first = null;

/** Without a token, one question goes alone. If it is refused, the others are, too, and are not sent. */
async function request(path, options) {
  if (token() || OPEN.includes(path)) return sent(path, options);
  const mine = (first ??= sent("v1/events?limit=1"));
  try {
    await mine;
  } catch (error) {
    if (error.status === 401) throw error;
    if (first === mine) first = null;
  }
  return sent(path, options);
}

async function sent(path, options) {
  let response;
  try {
    response = await fetch(path.replace(/^\//, ""), { headers: headers({ Accept: "application/json" }), ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The API cannot be reached");
  }
  const date = Date.parse(response.headers.get("Date") ?? "");
  // The header has whole seconds: half of one is the best guess.
  if (date) ahead = Math.abs(date + 500 - Date.now()) > 1500 ? date + 500 - Date.now() : 0;
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** POST or DELETE without a body; the answer's document, or null. */
export async function send(method, path) {
  const response = await request(path, { method });
  return response.status === 204 ? null : documentOf(response);
}

/** A token for user and password; the request has no other token. */
export async function logIn(credentials) {
  const sent = { Accept: "application/json", "Content-Type": "application/json" };
  return documentOf(await request("v1/login", { method: "POST", headers: sent, body: JSON.stringify(credentials) }));
}

let described = null;
let isDescribed = false; // it has come

/** The API's own description of its paths, asked for once; empty where it cannot be had, and then asked for again. */
export async function description() {
  const mine = (described ??= get("openapi.json"));
  try {
    const { paths } = await mine;
    isDescribed = true;
    return paths;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (described === mine) described = null;
    return {};
  }
}

/** Whether a template such as /v1/pods/{entity_id} is of this path. */
function isOf(template, path) {
  const [parts, own] = [template, path].map((one) => one.replace(/^\//, "").split("/"));
  return parts.length === own.length && parts.every((part, i) => part === own[i] || part.startsWith("{"));
}

/** A path whose `limit`, if it has one, is at most what the API allows: its administrator sets `[api] max_limit`. */
async function bounded(path) {
  const [list, text = ""] = path.split("?");
  const parameters = new URLSearchParams(text);
  const limit = Number(parameters.get("limit"));
  if (limit <= 1) return path;
  const [, operations] = Object.entries(await description()).find(([template]) => isOf(template, list)) ?? [];
  const most = operations?.get?.parameters.find(({ name }) => name === "limit")?.schema.maximum;
  if (!(most < limit)) return path;
  parameters.set("limit", most);
  return `${list}?${parameters}`;
}

/**
 * GET a JSON document; the path is relative to the page, so that it works below a prefix. The API's description is
 * large, so nothing waits for it until a limit is refused.
 */
export async function get(path, { signal } = {}) {
  try {
    return await documentOf(await request(isDescribed ? await bounded(path) : path, { signal }));
  } catch (problem) {
    const isLimit = problem instanceof Problem && problem.document?.errors?.some(({ pointer }) => pointer === "/limit");
    if (!isLimit) throw problem;
    return documentOf(await request(await bounded(path), { signal }));
  }
}

/** The name of the list that a document has. */
export const listIn = (page) => Object.keys(page).find((name) => Array.isArray(page[name]));

/**
 * GET a list page by page: the first document with the rows of all, and `more`, whether there are further rows.
 *
 * @param most rows at most, and from at most so many pages.
 */
export async function getPages(path, { most = Infinity, pages = 20 } = {}) {
  const first = await get(path);
  const list = listIn(first);
  const rows = [...first[list]];
  let next = first.next;
  for (let asked = 1; next && asked < pages && rows.length < most; asked += 1) {
    const page = await get(`${path.split("?")[0]}${new URL(next, document.baseURI).search}`);
    rows.push(...page[list]);
    next = page.next;
  }
  return { ...first, [list]: rows.slice(0, most), more: Boolean(next) || rows.length > most };
}

export const query = (parameters) => new URLSearchParams(parameters).toString();
