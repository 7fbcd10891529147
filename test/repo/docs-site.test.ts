import { existsSync, readdirSync } from "node:fs";
import { join, posix } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { anchorOf, headingsOf, withoutCode } from "../../docs/.vitepress/anchors.ts";
import type { SidebarEntry } from "../../scripts/docs/sidebar.ts";
import { ROOT, type Site, sitePages } from "../../scripts/docs/site-pages.ts";
import { readSource } from "./source-files.ts";

// What the site shows is put together without the program that draws it, so all of that is looked at here, in a
// second. `npm run docs -- --build` draws it, which takes a while, and refuses dead links as well.

/** Where a page of the site leads to, without what is outside of it. */
type Lead = {
  readonly page: string;
  readonly link: string;
  readonly to: string;
  readonly anchor: string;
};

let site: Site;
let leads: Lead[] = [];

beforeAll(async () => {
  site = await sitePages();
  leads = [...site.pages].flatMap(([page, text]) => leadsOf(page, text));
});

function leadsOf(page: string, text: string): Lead[] {
  const bare = withoutCode(text).replaceAll(/`[^`\n]+`/g, "code");
  return [...bare.matchAll(/!?\[(?:[^\][]|\[[^\]]*\])*\]\(([^)\s]+)\)/g)]
    .map(([, link = ""]) => link)
    .filter((link) => !/^[a-z]+:/.test(link))
    .map((link) => {
      const [file = "", anchor = ""] = link.split("#");
      const to = file === "" ? page : posix.join(posix.dirname(page), file);
      return { page, link, to, anchor };
    });
}

function linksOf(entries: readonly SidebarEntry[]): string[] {
  return entries.flatMap(({ link, items }) => [
    ...(link === undefined ? [] : [link.slice(1)]),
    ...linksOf(items ?? []),
  ]);
}

const isCode = (page: string): boolean => /\.\w+\.md$/.test(page);

describe("the site", () => {
  test("has no dead link", () => {
    const dead = leads.filter(({ to }) => !site.pages.has(to) && !site.files.has(to));
    expect(dead.map(({ page, link }) => `${page}: ${link}`)).toEqual([]);
    expect(leads.length).toBeGreaterThan(500);
  });

  test("has every place within a page that a link names", () => {
    const anchors = new Map(
      [...site.pages].map(([page, text]) => [
        page,
        new Set(headingsOf(text).map(({ anchor }) => anchor)),
      ]),
    );
    const dead = leads.filter(
      ({ to, anchor }) => anchor !== "" && anchors.get(to)?.has(anchor) !== true,
    );
    expect(dead.map(({ page, link }) => `${page}: ${link}`)).toEqual([]);
  });

  test("has every page in its sidebar, once, and code where a page shows it", () => {
    const listed = linksOf(site.sidebar);
    const pages = [...site.pages.keys()];
    expect(listed.toSorted()).toEqual(pages.filter((page) => !isCode(page)).toSorted());
    const reached = new Set(leads.map(({ to }) => to));
    expect(pages.filter((page) => isCode(page) && !reached.has(page))).toEqual([]);
  });

  test("shows files that are there, and every drawing", () => {
    const missing = [...site.files.values()].filter((file) => !existsSync(join(ROOT, file)));
    expect(missing).toEqual([]);
    const drawings = readdirSync(join(ROOT, "docs", "drawings"));
    const text = readdirSync(join(ROOT, "docs"))
      .filter((name) => name.endsWith(".md"))
      .map((name) => readSource(`docs/${name}`))
      .join("\n");
    expect(drawings.filter((name) => !text.includes(`(drawings/${name})`))).toEqual([]);
    const drawn = [...site.pages.values()].join("\n").match(/<figure class="drawing"><svg /g) ?? [];
    expect(drawn.length).toBeGreaterThanOrEqual(drawings.length);
  });

  test("shows code of another system beside ours", () => {
    for (const name of ["dagster", "airflow", "temporal", "bullmq"]) {
      const text = site.pages.get(`coming-from/${name}.md`) ?? "";
      expect(text.match(/<div class="beside">/g)?.length, name).toBeGreaterThanOrEqual(2);
      expect(text, name).not.toMatch(/^```\w+ other$/m);
    }
  });

  test("loads nothing from elsewhere", () => {
    const files = ["config.ts", "theme/index.ts", "theme/site.css"];
    const text = files.map((file) => readSource(`docs/.vitepress/${file}`)).join("\n");
    expect(text).not.toMatch(/https?:\/\//);
    expect(text).toContain('provider: "local"');
  });
});

describe("the references", () => {
  test("have every command, with its options", () => {
    const help = readSource("test/repo/frozen/cli-help.txt");
    const commands = [...help.matchAll(/^\$ (pawl .+) --help$/gm)].map(([, name = ""]) => name);
    const text = site.pages.get("reference/cli.md") ?? "";
    const told = new Set(headingsOf(text).map((heading) => heading.text));
    expect(commands.length).toBeGreaterThan(100);
    expect(commands.filter((name) => !told.has(name))).toEqual([]);
    const options = [...help.matchAll(/^ {2}((?:-\w, )?--[\w-]+(?: [<[][^>\]]+[>\]])?)/gm)]
      .map(([, flags = ""]) => flags)
      .filter((flags) => flags !== "-h, --help");
    expect(options.length).toBeGreaterThan(200);
    expect([...new Set(options)].filter((flags) => !text.includes(`\`${flags}\``))).toEqual([]);
  });

  test("have every operation and every document", () => {
    const [operations = "", documents = ""] = readSource("test/repo/frozen/api.txt").split("\n\n");
    const pages = [...site.pages].filter(([path]) => path.startsWith("reference/api/"));
    const told = pages.flatMap(([, text]) => headingsOf(text).map((heading) => heading.text));
    const names = operations.split("\n").map((line) => line.split(" ")[2] ?? "");
    const more = documents
      .trim()
      .split("\n")
      .map((line) => line.split(" ")[0] ?? "");
    expect(names.length).toBeGreaterThan(100);
    expect([...names, ...more].filter((name) => !told.includes(name))).toEqual([]);
    const index = site.pages.get("reference/api/index.md") ?? "";
    expect(names.filter((name) => !index.includes(`[${name}](`))).toEqual([]);
  });
});

test("headings are named as the hosts of repositories name them", () => {
  expect(anchorOf("Slack, Teams and Discord")).toBe("slack-teams-and-discord");
  expect(anchorOf("What is `pawl_x` – and why?")).toBe("what-is-pawl_x--and-why");
  const twice = headingsOf("# One\n```sh\n# not this\n```\n## One\n");
  expect(twice.map(({ anchor }) => anchor)).toEqual(["one", "one-1"]);
});
