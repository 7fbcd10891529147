import { createHash } from "node:crypto";
import type { OpenApi } from "./openapi.ts";

const STYLE = `
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #8884 }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem }
nav a { display: inline-block; margin-right: 1rem }
summary { cursor: pointer; padding: .3rem 0; overflow-wrap: anywhere }
details[open] { border-left: 2px solid #8884; padding-left: .75rem; margin-bottom: 1rem }
code, pre { font-family: ui-monospace, monospace; font-size: .875rem }
code { overflow-wrap: anywhere }
pre { background: #8881; padding: .75rem; overflow-x: auto; border-radius: .25rem }
.method { display: inline-block; min-width: 4rem; font-weight: 600 }
.summary { opacity: .8 }
.table { overflow-x: auto }
td { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top }
td:first-child code { white-space: nowrap }
@media (max-width: 40rem) {
  tr { display: block; margin-bottom: .5rem }
  td { display: inline-block; padding: 0 .5rem 0 0 }
  td:last-child { display: block }
}
`;

/** Allows the page its own style and nothing else. */
export const DOCS_POLICY =
  "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; " +
  `style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`;

type Schema = {
  $ref?: string;
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  default?: unknown;
  format?: string;
  pattern?: string;
  minimum?: number;
  minLength?: number;
  minItems?: number;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: Schema | boolean;
  items?: Schema;
  prefixItems?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
};

type Parameter = {
  name: string;
  in: string;
  required: boolean;
  schema: Schema;
  description?: string;
};

type Content = Record<string, { schema: Schema }>;

type Described = {
  summary: string;
  tags: string[];
  parameters: Parameter[];
  requestBody?: { content: Content };
  responses: Record<string, { description: string; content: Content }>;
};

type Schemas = Readonly<Record<string, Schema>>;

/** Headings of the parts of an API whose path says it otherwise. */
const HEADINGS: Readonly<Record<string, string>> = {
  server: "Server",
  worker: "Worker protocol",
  why: "Why something is as it is",
};

/** The reference page: the OpenAPI document as plain HTML, without any script. */
export function docsPage(api: OpenApi): string {
  const schemas = api.components.schemas as Schemas;
  const byTag = Map.groupBy(
    Object.entries(api.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => {
        return { path, method: method.toUpperCase(), operation: operation as Described };
      }),
    ),
    ({ operation }) => operation.tags[0] ?? "server",
  );
  const sections = [...byTag].map(([tag, operations]) => {
    const entries = operations.map((each) => entry(each, schemas));
    return `<h2 id="${escaped(tag)}">${escaped(headingOf(tag))}</h2>\n${entries.join("\n")}`;
  });
  const links = [...byTag.keys()].map(
    (tag) => `<a href="#${escaped(tag)}">${escaped(headingOf(tag))}</a>`,
  );
  const documents = Object.entries(schemas).map(
    ([name, schema]) =>
      `<details id="schema-${escaped(name)}"><summary><code>${escaped(name)}</code></summary>` +
      `${fieldsTable(schema, schemas)}</details>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(api.info.title)} API ${escaped(api.info.version)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${escaped(api.info.title)} API</h1>
<p>${prose(api.info.description)} The machine-readable form is
<a href="/openapi.json">openapi.json</a>.</p>
<nav>${links.join(" ")} <a href="#documents">Documents</a></nav>
${sections.join("\n")}
<h2 id="documents">Documents</h2>
${documents.join("\n")}
</body>
</html>
`;
}

function headingOf(tag: string): string {
  const words = tag.replaceAll(/[-_]/g, " ");
  return HEADINGS[tag] ?? words.charAt(0).toUpperCase() + words.slice(1);
}

type Entry = { path: string; method: string; operation: Described };

function entry({ path, method, operation }: Entry, schemas: Schemas): string {
  const { parameters, requestBody, responses, summary } = operation;
  const body = requestBody?.content["application/json"]?.schema;
  const answers = Object.entries(responses).map(([status, { description, content }]) => {
    const [[type, { schema }] = ["", { schema: {} }]] = Object.entries(content);
    const isRefusal = status === "default";
    // Refusals are one document, which is described once; streams are no documents.
    const example =
      isRefusal || type !== "application/json" ? "" : block(exampleOf(schema, schemas, "answer"));
    return (
      `<h3>${isRefusal ? "Refused" : `Answer ${escaped(status)}`}</h3>` +
      `<p>${escaped(description)}: ${typeText(schema)}</p>${example}`
    );
  });
  return `<details><summary><span class="method">${escaped(method)}</span>
<code>${escaped(path)}</code> <span class="summary">${escaped(summary)}</span></summary>
${parameters.length === 0 ? "" : `<h3>Parameters</h3>${parametersTable(parameters)}`}
${body === undefined ? "" : `<h3>Body</h3>${fieldsTable(body, schemas)}`}
<h3>Example</h3>${requestText(path, method, parameters, body, schemas)}
${answers.join("")}
</details>`;
}

function parametersTable(parameters: readonly Parameter[]): string {
  const rows = parameters.map(
    ({ name, in: place, required, schema, description = "" }) =>
      `<tr><td><code>${escaped(name)}</code></td><td>${escaped(place)}</td>` +
      `<td>${required ? "required" : ""}</td>` +
      `<td>${typeText(schema)} ${prose(description)}</td></tr>`,
  );
  return `<div class="table"><table>${rows.join("")}</table></div>`;
}

/** The fields of a document; of a choice of documents, those of each. */
function fieldsTable(schema: Schema, schemas: Schemas): string {
  const resolved = resolve(schema, schemas);
  const choices = resolved.oneOf ?? resolved.anyOf;
  if (choices !== undefined) {
    return choices.map((each) => fieldsTable(each, schemas)).join("<p>or</p>");
  }
  const { properties, required = [] } = resolved;
  if (properties === undefined) return `<p>${typeText(resolved)}</p>`;
  const rows = Object.entries(properties).map(
    ([name, field]) =>
      `<tr><td><code>${escaped(name)}</code></td>` +
      `<td>${required.includes(name) ? "required" : ""}</td>` +
      `<td>${typeText(field)} ${prose(field.description ?? "")}</td></tr>`,
  );
  return `<div class="table"><table>${rows.join("")}</table></div>`;
}

function resolve(schema: Schema, schemas: Schemas): Schema {
  const { $ref: ref } = schema;
  return ref === undefined ? schema : (schemas[nameOf(ref)] ?? schema);
}

function nameOf(ref: string): string {
  return ref.replace("#/components/schemas/", "");
}

/** What a value is, in words; documents with a name are links to their fields. */
function typeText(schema: Schema): string {
  const { $ref: ref, type, items, properties, additionalProperties } = schema;
  if (ref !== undefined) {
    const name = escaped(nameOf(ref));
    return `<a href="#schema-${name}">${name}</a>`;
  }
  if (schema.const !== undefined) return `<code>${escaped(JSON.stringify(schema.const))}</code>`;
  if (schema.enum !== undefined) {
    return schema.enum.map((each) => `<code>${escaped(JSON.stringify(each))}</code>`).join(" or ");
  }
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) {
    return [...new Set(choices.map((each) => typeText(each)))].join(" or ");
  }
  if (items !== undefined) return `list of ${typeText(items)}`;
  if (properties !== undefined) {
    const fields = Object.entries(properties).map(
      ([name, field]) => `<code>${escaped(name)}</code>: ${typeText(field)}`,
    );
    return `{ ${fields.join(", ")} }`;
  }
  if (typeof additionalProperties === "object") {
    return `names, each with ${typeText(additionalProperties)}`;
  }
  const plain = Array.isArray(type) ? type.join(" or ") : (type ?? "any JSON value");
  const format = schema.format === undefined ? "" : ` (${escaped(schema.format)})`;
  const otherwise =
    schema.default === undefined
      ? ""
      : `, else <code>${escaped(JSON.stringify(schema.default))}</code>`;
  return `${escaped(plain)}${format}${otherwise}`;
}

function requestText(
  path: string,
  method: string,
  parameters: readonly Parameter[],
  body: Schema | undefined,
  schemas: Schemas,
): string {
  const own = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => String(textOf(name, {})));
  const needed = parameters.filter(({ required }) => required);
  const query = needed
    .filter(({ in: place }) => place === "query")
    .map(({ name, schema }) => `${name}=${String(exampleOf(schema, schemas, "request", name))}`);
  const address = `$URL${own}${query.length === 0 ? "" : `?${query.join("&")}`}`;
  const lines = [`curl${method === "GET" ? "" : ` -X ${method}`} "${address}"`];
  lines.push('-H "authorization: Bearer $PAWL_TOKEN"');
  if (needed.some(({ name }) => name === "Idempotency-Key")) {
    lines.push('-H "idempotency-key: something-new"');
  }
  if (body !== undefined) {
    lines.push('-H "content-type: application/json"');
    const json = JSON.stringify(exampleOf(body, schemas, "request"), null, 2);
    lines.push(`-d '${json}'`);
  }
  return `<pre>${escaped(lines.join(" \\\n  "))}</pre>`;
}

/** Values of fields in examples, by the ends of their names. */
const EXAMPLES: readonly (readonly [end: string, value: unknown])[] = [
  ["run_id", "run_t7swqahn4kz2vybm3xj5c6d7ef"],
  ["_id", "01M7R5WRBTVEFJXJZR2QEG42SS"],
  ["asset_key", "daily_sales"],
  ["assets", ["daily_sales"]],
  ["asset_selection", ["daily_sales"]],
  ["partition_keys", ["2025-01-05"]],
  ["partition_key", "2025-01-05"],
  ["partition", "2025-01-05"],
  ["start", "2025-01-01"],
  ["end", "2025-01-31"],
  ["cron", "0 6 * * *"],
  ["timezone", "Europe/Berlin"],
  ["url", "https://hooks.example/pawl"],
  ["shard", "east"],
  ["tenant", "acme"],
  ["name", "refresh"],
];

function textOf(name: string, schema: Schema): unknown {
  const known = EXAMPLES.find(
    ([end]) => name === end || (end.startsWith("_") && name.endsWith(end)),
  );
  const fits = known !== undefined && (Array.isArray(known[1]) ? schema.type === "array" : true);
  if (fits) return known[1];
  const isInstant =
    schema.format === "date-time" || schema.pattern?.startsWith("^\\d{4}-") === true;
  return isInstant ? "2026-01-31T08:00:00.000Z" : "text";
}

/** Fields that an example request has although their schema does not say so: one of several is needed. */
const USUAL = ["assets", "max_concurrent_runs", "max_parallel", "move", "segment_concurrency"];

/** Documents inside documents that an example shows. */
const DEPTH_MAX = 8;

/** An example of a value: of a request what it needs at least, of an answer every field. */
function exampleOf(
  schema: Schema,
  schemas: Schemas,
  of: "request" | "answer",
  name = "",
  depth = 0,
): unknown {
  const resolved = resolve(schema, schemas);
  const { properties, items, type, additionalProperties } = resolved;
  const inner = (each: Schema, field = name): unknown =>
    exampleOf(each, schemas, of, field, depth + 1);
  if (resolved.const !== undefined) return resolved.const;
  if (resolved.enum !== undefined) return resolved.enum[0];
  if (resolved.default !== undefined) return resolved.default;
  const choices = resolved.anyOf ?? resolved.oneOf;
  if (choices !== undefined) {
    return inner(choices.find((each) => each.type !== "null") ?? choices[0] ?? {});
  }
  if (properties !== undefined) {
    if (depth > DEPTH_MAX) return {};
    const { required = [], allOf = [] } = resolved;
    // One of several names of a field, where one has to be there.
    const chosen = allOf.flatMap((each) => each.anyOf?.[0]?.required ?? []);
    const usual = USUAL.filter((field) => properties[field] !== undefined);
    const shown =
      of === "answer" ? Object.keys(properties) : new Set([...required, ...chosen, ...usual]);
    return Object.fromEntries(
      [...shown].map((field) => [field, inner(properties[field] ?? {}, field)]),
    );
  }
  const text = textOf(name, resolved);
  if (Array.isArray(text)) return text;
  if (items !== undefined)
    return of === "request" && resolved.minItems === undefined ? [] : [inner(items)];
  if (typeof additionalProperties === "object") return { name: inner(additionalProperties) };
  const kind = Array.isArray(type) ? type[0] : type;
  if (kind === "integer" || kind === "number") return Math.max(1, resolved.minimum ?? 1);
  if (kind === "boolean") return true;
  return kind === "string" ? text : kind === "null" ? null : {};
}

function block(value: unknown): string {
  return `<pre>${escaped(JSON.stringify(value, null, 2))}</pre>`;
}

/** A text with names between backticks. */
function prose(text: string): string {
  return escaped(text).replaceAll(/`([^`]+)`/g, "<code>$1</code>");
}

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
