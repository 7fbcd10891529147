import { openApi } from "../../src/server/http/openapi.ts";
import { cell, table } from "./markdown.ts";

type Schema = { readonly [name: string]: unknown };

type Parameter = {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly description?: string;
  readonly schema: Schema;
};

type ApiOperation = {
  readonly operationId: string;
  readonly summary: string;
  readonly "x-pawl-verb": string | null;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly content: Contents };
  readonly responses: Readonly<Record<string, { readonly content?: Contents }>>;
};

type Contents = Readonly<Record<string, { readonly schema: Schema }>>;

type Listed = { method: string; path: string; operation: ApiOperation };

const DOCUMENTS = "documents";

/** What has no page of its own, by the part of its path that says what it is about. */
const PAGE_OF: Readonly<Record<string, string>> = {
  definitions: "assets",
  partitions: "assets",
  conflicts: "runs",
  changes: "events",
  overview: "server",
  tick: "server",
  samples: "server",
  tokens: "server",
};

const TITLES: Readonly<Record<string, string>> = {
  assets: "Assets and partitions",
  runs: "Runs, tasks and logs",
  events: "Events and changes",
  server: "Server and tokens",
  work: "Work of other kinds",
  worker: "What workers say",
};

/** A page of the reference: its name, its title and its text. */
export type ReferencePage = {
  readonly name: string;
  readonly title: string;
  readonly text: string;
};

/** The pages about every operation of the API, and about every document it takes and gives. */
export function apiReference(): ReferencePage[] {
  const { paths, components } = openApi("");
  const all: Listed[] = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      operation: operation as unknown as ApiOperation,
    })),
  );
  const byPage = Map.groupBy(all, ({ path }) => pageOf(path));
  const pages = [...byPage].map(([name, listed]) => {
    const title = TITLES[name] ?? name.charAt(0).toUpperCase() + name.slice(1);
    return { name, title, text: `# ${title}\n\n${listed.map(operationText).join("\n")}` };
  });
  const sorted = pages.toSorted((a, b) => (a.title < b.title ? -1 : 1));
  const documents = Object.entries(components.schemas as Record<string, Schema>);
  return [
    { name: "index", title: "All operations", text: indexText(all) },
    ...sorted,
    { name: DOCUMENTS, title: "Documents", text: documentsText(documents) },
  ];
}

function pageOf(path: string): string {
  const [, , , area = "", resource] = path.split("/");
  const about = area === "orchestration" ? (resource ?? "") : area;
  const page = PAGE_OF[about] ?? about;
  return page === "" || (resource === undefined && !OWN_AREAS.has(page)) ? "server" : page;
}

const OWN_AREAS = new Set(["syncs", "splits", "moves", "routing", "work", "worker", "events"]);

function indexText(all: readonly Listed[]): string {
  const rows = all.map(({ method, path, operation: { operationId, summary } }) => [
    `[${operationId}](${pageOf(path)}.md#${operationId.toLowerCase()})`,
    `\`${method} ${path}\``,
    cell(summary),
  ]);
  return `# HTTP API

Every operation, made from the OpenAPI document that a server gives at \`/openapi.json\` and shows at \`/docs\`. The
[guide](../../guide.md#the-api) tells how requests, keys and versions work, and [errors](../../errors.md) what a refusal means. From
TypeScript, \`client.call("${all[0]?.operation.operationId ?? ""}", { … })\` takes the name of an operation.

${table(["operation", "request", "does"], rows)}
`;
}

function operationText({ method, path, operation }: Listed): string {
  const { operationId, summary, parameters, requestBody, responses } = operation;
  const verb = operation["x-pawl-verb"];
  const right = verb === null ? "Needs no token." : `Needs the right to \`${verb}\`.`;
  const body = Object.values(requestBody?.content ?? {})[0]?.schema;
  const answers = Object.entries(responses)
    .filter(([status]) => status !== "default")
    .map(([status, { content }]) => {
      const schema = Object.values(content ?? {})[0]?.schema;
      return `- \`${status}\`: ${schema === undefined ? "nothing" : typeText(schema)}`;
    });
  const rows = parameters.map((each) => [
    `\`${each.name}\`${each.required ? "" : "?"}`,
    each.in,
    typeText(each.schema),
    cell(each.description ?? ""),
  ]);
  const parts = [
    `## ${operationId}`,
    `\`${method} ${path}\``,
    `${cell(summary)}. ${right}`,
    rows.length === 0 ? "" : table(["parameter", "in", "is", "means"], rows),
    body === undefined ? "" : `**Body**: ${bodyText(body)}`,
    `**Answers**\n\n${answers.join("\n")}`,
  ];
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

/** A body that has no name is told field by field. */
function bodyText(body: Schema): string {
  const fields = fieldsTable(body);
  return fields === "" ? typeText(body) : `\n\n${fields}`;
}

function documentsText(documents: readonly (readonly [string, Schema])[]): string {
  const sections = documents.map(([name, schema]) => {
    const choices = choicesOf(schema);
    const fields = fieldsTable(schema);
    const is =
      choices === null ? typeText(schema) : `One of: ${choices.map(typeText).join(" or ")}`;
    return `## ${name}\n\n${fields === "" ? is : fields}\n`;
  });
  return `# Documents

What the API takes and gives. A field with \`?\` may be left out.

${sections.join("\n")}`;
}

function fieldsTable(schema: Schema): string {
  const properties = Object.entries((schema["properties"] ?? {}) as Record<string, Schema>);
  if (properties.length === 0) return "";
  const required = new Set((schema["required"] ?? []) as string[]);
  const rows = properties.map(([name, field]) => [
    `\`${name}\`${required.has(name) ? "" : "?"}`,
    typeText(field),
    cell(typeof field["description"] === "string" ? field["description"] : ""),
  ]);
  return table(["field", "is", "means"], rows);
}

function choicesOf(schema: Schema): readonly Schema[] | null {
  const choices = schema["oneOf"] ?? schema["anyOf"];
  return Array.isArray(choices) ? (choices as Schema[]) : null;
}

/** What a value may be, in words, with links to documents that have a name. */
function typeText(schema: Schema): string {
  const { $ref: ref, const: only, enum: values, items, type } = schema;
  if (typeof ref === "string") {
    const name = ref.slice(ref.lastIndexOf("/") + 1);
    return `[${name}](${DOCUMENTS}.md#${name.toLowerCase()})`;
  }
  if (only !== undefined) return code(only);
  if (Array.isArray(values)) return values.map(code).join(", ");
  const choices = choicesOf(schema);
  if (choices !== null) return [...new Set(choices.map(typeText))].join(" or ");
  if (type === "array") {
    const item = typeof items === "object" && items !== null ? typeText(items as Schema) : "";
    return item === "" ? "list" : `list of ${item}`;
  }
  if (type === "object" && typeof schema["additionalProperties"] === "object") {
    return `object of ${typeText(schema["additionalProperties"] as Schema)}`;
  }
  if (type === "object") return objectText(schema);
  if (Array.isArray(type)) return type.join(" or ");
  return typeof type === "string" ? `${type}${boundsText(schema)}` : "anything";
}

function objectText(schema: Schema): string {
  const properties = Object.entries((schema["properties"] ?? {}) as Record<string, Schema>);
  if (properties.length === 0) return "object";
  const [, page] = properties.find(([name]) => name === "items") ?? [];
  if (page !== undefined) return `${typeText(page)}, with ${namesText(properties)}`;
  const required = new Set((schema["required"] ?? []) as string[]);
  const fields = properties.map(([name, { const: only }]) => {
    const mark = required.has(name) ? "" : "?";
    return only === undefined ? `${name}${mark}` : `${name}${mark}: ${JSON.stringify(only)}`;
  });
  return `\`{ ${fields.join(", ").replaceAll("|", "\\|")} }\``;
}

/** What a page of a list has beside its items. */
function namesText(properties: readonly (readonly [string, Schema])[]): string {
  const names = properties.map(([name]) => name).filter((name) => name !== "items");
  return names.map((name) => `\`${name}\``).join(", ");
}

function boundsText(schema: Schema): string {
  const { minimum, maximum, maxLength, default: unless, format } = schema;
  const bounds = [
    typeof format === "string" ? format : "",
    typeof minimum === "number" &&
    minimum !== 0 &&
    Number.isSafeInteger(minimum) &&
    minimum !== Number.MIN_SAFE_INTEGER
      ? `from ${minimum}`
      : "",
    typeof maximum === "number" && maximum !== Number.MAX_SAFE_INTEGER ? `to ${maximum}` : "",
    typeof maxLength === "number" ? `at most ${maxLength} characters` : "",
    unless === undefined ? "" : `${JSON.stringify(unless)} unless given`,
  ].filter((bound) => bound !== "");
  return bounds.length === 0 ? "" : ` (${bounds.join(", ")})`;
}

function code(value: unknown): string {
  return `\`${JSON.stringify(value)}\``;
}
