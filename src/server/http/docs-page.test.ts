import { expect, test } from "vitest";
import type { Operation } from "../../work/operation.ts";
import { OPERATIONS } from "../../work/operations.ts";
import { docsPage } from "./docs-page.ts";
import { openApi } from "./openapi.ts";

const page = docsPage(openApi("0.0.0"));

function unescaped(text: string): string {
  return text
    .replaceAll("&quot;", '"')
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&amp;", "&");
}

function partOf({ method, path }: Operation): string {
  const title = `<span class="method">${method}</span>\n<code>${path}</code>`;
  return page.split("<details>").find((part) => part.includes(title)) ?? "";
}

test("every operation has an example request that it takes", () => {
  const refused = (Object.entries(OPERATIONS) as [string, Operation][]).filter(([, operation]) => {
    const part = partOf(operation);
    expect(part).toContain("<h3>Example</h3><pre>curl");
    if (operation.body === undefined) return false;
    const [, json = ""] = /-d '([\s\S]*?)'<\/pre>/.exec(part) ?? [];
    return !operation.body.safeParse(JSON.parse(unescaped(json))).success;
  });
  expect(refused.map(([name]) => name)).toEqual([]);
});

test("documents are shown by their fields, and what is named has its place on the page", () => {
  expect(page).not.toContain("$ref");
  const links = [...page.matchAll(/href="#([^"]+)"/g)].map(([, id = ""]) => id);
  const ids = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id = ""]) => id));
  expect(new Set(links).size).toBeGreaterThan(50);
  expect(links.filter((id) => !ids.has(id))).toEqual([]);
  const headings = [...page.matchAll(/<h2[^>]*>([^<]*)<\/h2>/g)].map(([, text = ""]) => text);
  expect(headings).toContain("Backfills");
  expect(headings.filter((text) => !/^[A-Z][a-z ]+$/.test(text))).toEqual([]);
});
