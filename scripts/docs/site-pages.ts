import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { extname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { headingsOf } from "../../docs/.vitepress/anchors.ts";
import { apiReference } from "./api-reference.ts";
import { cliReference } from "./cli-reference.ts";
import { INSIDE, type SidebarEntry, WRITTEN } from "./sidebar.ts";

/** The root of this repository. */
export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Everything that the site is made of: pages and files by their place on it, and its sidebar. */
export type Site = {
  /** The text of each page, by its path on the site. */
  readonly pages: ReadonlyMap<string, string>;
  /** Files that pages show, by their place on the site: where they are in the repository. */
  readonly files: ReadonlyMap<string, string>;
  readonly sidebar: readonly SidebarEntry[];
};

/** Folders and files whose documents are on the site, besides those of `docs`. */
const MORE = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples"];
/** What is not written by hand. */
const NOT_OURS = new Set(["node_modules", "dist", "data", ".pawl", ".vitepress"]);
const LINK = /(!?)\[((?:[^\][]|\[[^\]]*\])*)\]\(([^)\s]+)\)/g;
const DRAWING = /^!\[([^\]]*)\]\(([^)\s]*drawings\/[^)\s]+\.svg)\)$/;
const FENCE = /^(`{3,})/;
/** Code of another system right before ours: shown beside each other. */
const BESIDE =
  /^\*\*([A-Z]\w+)\*\*\n\n(```\w+ other\n[\s\S]*?\n```)\n\n\*\*Pawl\*\*\n\n(```\w+\n[\s\S]*?\n```)$/gm;
const LANGUAGES: Readonly<Record<string, string>> = { ".py": "python", ".csv": "text" };

/** Makes all of the site but the drawing of it: what a page shows, and what leads where. */
export async function sitePages(): Promise<Site> {
  const pages = new Map<string, string>();
  const files = new Map<string, string>();
  const documents = ["docs", ...MORE].flatMap(documentsIn);
  for (const path of documents) pages.set(placeOf(path), "");
  const shown = new Set<string>();
  for (const path of documents) {
    const text = readFileSync(join(ROOT, path), "utf8");
    pages.set(placeOf(path), onSite(path, text, pages, files, shown));
  }
  // Code that a page links to is a page as well, so that no link leads out of the site.
  for (const path of shown) pages.set(`${path}.md`, codePage(path));
  const api = apiReference();
  for (const { name, text } of api) pages.set(`reference/api/${name}.md`, text);
  pages.set("reference/cli.md", await cliReference());
  const reference: SidebarEntry = {
    text: "Reference",
    items: [
      { text: "Command line", link: "/reference/cli.md" },
      {
        text: "HTTP API",
        collapsed: true,
        items: api.map(({ name, title }) => ({
          text: title,
          link: `/reference/api/${name}.md`,
        })),
      },
      { text: "Events", link: "/events.md" },
      { text: "Worker protocol", link: "/worker-protocol.md" },
    ],
  };
  return { pages, files, sidebar: [...WRITTEN, reference, insideOf(pages)] };
}

function insideOf(pages: ReadonlyMap<string, string>): SidebarEntry {
  const decisions = [...pages.entries()]
    .filter(([path]) => path.startsWith("decisions/"))
    .map(([path, text]) => ({ text: headingsOf(text)[0]?.text ?? path, link: `/${path}` }))
    .toSorted((a, b) => (a.link < b.link ? -1 : 1));
  return {
    text: "Inside",
    items: [...INSIDE, { text: "Decisions", collapsed: true, items: decisions }],
  };
}

/** All documents at or below a path. */
function documentsIn(path: string): string[] {
  if (!statSync(join(ROOT, path)).isDirectory()) return [path];
  return readdirSync(join(ROOT, path), { withFileTypes: true }).flatMap((entry) => {
    if (NOT_OURS.has(entry.name)) return [];
    const inner = `${path}/${entry.name}`;
    if (entry.isDirectory()) return documentsIn(inner);
    return entry.name.endsWith(".md") ? [inner] : [];
  });
}

/** Where a document of the repository is on the site. */
function placeOf(path: string): string {
  const within = path.startsWith("docs/") ? path.slice("docs/".length) : path;
  if (!within.includes("/")) return within.toLowerCase();
  return within.replace(/\/README\.md$/, "/index.md");
}

function onSite(
  path: string,
  text: string,
  pages: ReadonlyMap<string, string>,
  files: Map<string, string>,
  shown: Set<string>,
): string {
  const place = placeOf(path);
  const relative = (target: string): string => {
    const way = posix.relative(posix.dirname(place), target);
    return way.startsWith(".") ? way : `./${way}`;
  };
  const leadTo = (mark: string, link: string): string => {
    if (/^[a-z]+:/.test(link) || link.startsWith("#")) return link;
    const [file = "", anchor] = link.split("#");
    const target = posix.join(posix.dirname(path), file);
    const end = anchor === undefined ? "" : `#${anchor}`;
    if (mark === "!") {
      const at = target.replace(/^docs\//, "");
      files.set(at, target);
      return relative(at);
    }
    const readme = `${target}/README.md`;
    const document = existsSync(join(ROOT, readme)) ? readme : target;
    if (pages.has(placeOf(document))) return `${relative(placeOf(document))}${end}`;
    const isFile = existsSync(join(ROOT, target)) && statSync(join(ROOT, target)).isFile();
    if (!isFile) return link;
    shown.add(target);
    return relative(`${target}.md`);
  };
  const lines = outsideFences(text.replaceAll(BESIDE, beside), (line) => {
    const drawing = DRAWING.exec(line);
    if (drawing !== null)
      return drawn(posix.join(posix.dirname(path), drawing[2] ?? ""), drawing[1] ?? "");
    return line.replaceAll(
      LINK,
      (_, mark: string, words: string, link: string) => `${mark}[${words}](${leadTo(mark, link)})`,
    );
  });
  const isWide = /^```\w+ other$/m.test(text);
  return `${isWide ? "---\npageClass: wide\naside: false\n---\n\n" : ""}${lines}`;
}

function outsideFences(text: string, change: (line: string) => string): string {
  let open: string | null = null;
  return text
    .split("\n")
    .map((line) => {
      const fence = FENCE.exec(line)?.[1];
      if (fence !== undefined && open === null) open = fence;
      else if (fence !== undefined && line.trim() === open) open = null;
      else if (open === null) return change(line);
      return line;
    })
    .join("\n");
}

function beside(_: string, name: string, theirs: string, ours: string): string {
  const block = (title: string, code: string): string =>
    `<div>\n\n**${title}**\n\n${code.replace(" other\n", "\n")}\n\n</div>`;
  return `<div class="beside">\n\n${block(name, theirs)}\n\n${block("Pawl", ours)}\n\n</div>`;
}

/** A drawing as a part of the page, which takes the colours of the site, by day and by night. */
function drawn(path: string, words: string): string {
  const svg = readFileSync(join(ROOT, path), "utf8");
  const bare = svg
    .replace(/<style>[\s\S]*?<\/style>/, "")
    .replace("<svg ", `<svg role="img" aria-label="${words.replaceAll('"', "&quot;")}" `)
    .replaceAll(/\n\s*/g, " ");
  return `<figure class="drawing">${bare.trim()}</figure>`;
}

function codePage(path: string): string {
  const language = LANGUAGES[extname(path)] ?? extname(path).slice(1);
  const text = readFileSync(join(ROOT, path), "utf8");
  return `# ${posix.basename(path)}\n\n\`${path}\`\n\n\`\`\`\`${language}\n${text.trimEnd()}\n\`\`\`\`\n`;
}
