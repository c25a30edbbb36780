// SPDX-License-Identifier: Apache-2.0
// What the API's own description says of a list: by which fields it is filtered and sorted.
import { description, get, listIn } from "./api.js";

const CONTROLS = new Set(["limit", "marker", "sort", "fields", "versions", "ids", "all_projects", "as_of", "filter",
  "all_fields", "exclude_fields", "exclude_default"]);

/** `{filters: {field: form}, sorts: Set of fields}` of the list at a path such as /v1/pods. */
export async function describe(path) {
  const operation = (await description())[path]?.get;
  const parameters = operation?.parameters || [];
  const filters = {};
  for (const { name, schema } of parameters) {
    if (!CONTROLS.has(name)) filters[name] = schema.items?.["x-form"] ?? schema["x-form"] ?? "";
  }
  const sorts = parameters.find(({ name }) => name === "sort")?.schema.enum || [];
  return { filters, sorts: new Set(sorts) };
}

/** The field that has the state of a kind's entities; undefined: the API computes it from several. */
export async function stateField(path) {
  const page = await get(`${path}?limit=1`);
  const entity = page[listIn(page)][0] ?? {};
  if ("crash_looping" in entity || "ready_replicas" in entity) return undefined;
  return ["state", "status", "phase"].find((field) => field in entity);
}
