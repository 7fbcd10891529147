import { createHash } from "node:crypto";
import type { OpenApi } from "./openapi.ts";

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #8884 }
summary { cursor: pointer; padding: .3rem 0 }
code, pre { font-family: ui-monospace, monospace; font-size: .875rem }
pre { background: #8881; padding: .75rem; overflow-x: auto; border-radius: .25rem }
.method { display: inline-block; min-width: 4rem; font-weight: 600 }
.summary { opacity: .8 }
th, td { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top }
:root { color-scheme: light dark }
`;

/** Allows the page its own style and nothing else. */
export const DOCS_POLICY =
  "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; " +
  `style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`;

type Described = {
  summary: string;
  tags: string[];
  parameters: { name: string; in: string; required: boolean; schema: unknown }[];
  requestBody?: { content: Record<string, { schema: unknown }> };
  responses: Record<string, { description: string; content: Record<string, { schema: unknown }> }>;
};

/** The reference page: the OpenAPI document as plain HTML, without any script. */
export function docsPage(api: OpenApi): string {
  const byTag = Map.groupBy(
    Object.entries(api.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => {
        return { path, method: method.toUpperCase(), operation: operation as Described };
      }),
    ),
    ({ operation }) => operation.tags[0] ?? "server",
  );
  const sections = [...byTag].map(([tag, operations]) => {
    const entries = operations.map(({ path, method, operation }) => entry(path, method, operation));
    return `<h2>${escaped(tag)}</h2>\n${entries.join("\n")}`;
  });
  const schemas = Object.entries(api.components.schemas).map(
    ([name, schema]) =>
      `<details id="schema-${escaped(name)}"><summary><code>${escaped(name)}</code></summary>` +
      `${block(schema)}</details>`,
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
<p>${escaped(api.info.description)} The machine-readable form is
<a href="/openapi.json">openapi.json</a>.</p>
${sections.join("\n")}
<h2>Documents</h2>
${schemas.join("\n")}
</body>
</html>
`;
}

function entry(path: string, method: string, operation: Described): string {
  const parameters = operation.parameters.map(
    (parameter) =>
      `<tr><td><code>${escaped(parameter.name)}</code></td><td>${escaped(parameter.in)}</td>` +
      `<td>${parameter.required ? "required" : ""}</td>` +
      `<td><code>${escaped(JSON.stringify(parameter.schema))}</code></td></tr>`,
  );
  const body = operation.requestBody?.content["application/json"];
  const answers = Object.entries(operation.responses).map(
    ([status, { description, content }]) =>
      `<p><strong>${escaped(status)}</strong> ${escaped(description)}</p>` +
      block(Object.values(content)[0]?.schema),
  );
  return `<details><summary><span class="method">${escaped(method)}</span>
<code>${escaped(path)}</code> <span class="summary">${escaped(operation.summary)}</span></summary>
${parameters.length === 0 ? "" : `<table>${parameters.join("")}</table>`}
${body === undefined ? "" : `<p><strong>Body</strong></p>${block(body.schema)}`}
${answers.join("")}
</details>`;
}

function block(schema: unknown): string {
  return `<pre>${escaped(JSON.stringify(schema, null, 2) ?? "")}</pre>`;
}

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
