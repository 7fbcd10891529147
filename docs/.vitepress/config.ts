import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitepress";
import { anchorOf } from "./anchors.ts";

// The pages are put together by `npm run docs` (scripts/docs/site-pages.ts) before this is read.
const made = fileURLToPath(new URL("../dist", import.meta.url));
const sidebar = JSON.parse(readFileSync(`${made}/sidebar.json`, "utf8"));

export default defineConfig({
  title: "Pawl",
  description: "Durable backfills: plan long data work, run it in chunks, survive anything.",
  srcDir: "dist/pages",
  outDir: "dist/site",
  cacheDir: "node_modules/.cache",
  // At the root of its address; `npm run docs -- --build --base /pawl/` writes it for a folder below.
  base: "/",
  metaChunk: true,
  // The index of all words is one large file, which is fetched by the first search.
  vite: { build: { chunkSizeWarningLimit: 2_000 } },
  head: [["link", { rel: "icon", href: "/pawl.svg" }]],
  markdown: {
    anchor: { slugify: anchorOf },
    theme: { light: "github-light", dark: "github-dark" },
    // Braces in documents are braces, and nothing for Vue to fill in.
    config(md) {
      for (const name of ["text", "code_inline", "fence"]) {
        const render = md.renderer.rules[name];
        md.renderer.rules[name] = (...args) =>
          (render?.(...args) ?? "").replaceAll("{{", "&#123;&#123;");
      }
    },
  },
  themeConfig: {
    logo: "/pawl.svg",
    sidebar,
    outline: [2, 3],
    nav: [
      { text: "Start", link: "/start" },
      { text: "Recipes", link: "/recipes/" },
      { text: "Guide", link: "/guide" },
      { text: "API", link: "/reference/api/" },
    ],
    search: {
      provider: "local",
      options: {
        miniSearch: {
          // Words of commands and options are found by their parts, and headings before text.
          searchOptions: { fuzzy: 0.15, prefix: true, boost: { title: 6, titles: 2, text: 1 } },
        },
      },
    },
  },
});
