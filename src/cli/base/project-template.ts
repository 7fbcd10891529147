const DAY_MS = 86_400_000;
const DAYS_AT_FIRST = 30;

/** The files of a new project, by name. */
export function projectFiles(directoryName: string, now: number): Readonly<Record<string, string>> {
  const start = new Date(now - DAYS_AT_FIRST * DAY_MS).toISOString().slice(0, 10);
  const name = directoryName
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, "-")
    .replace(/^[._-]+/, "");
  return {
    "pawl.config.ts": config(start),
    "package.json": packageJson(name === "" ? "pawl-project" : name),
    ".gitignore": "node_modules/\n.pawl/\ndata/\n",
    "README.md": readme(name),
  };
}

function packageJson(name: string): string {
  const scripts = { dev: "pawl dev", start: "pawl start" };
  return `${JSON.stringify({ name, private: true, type: "module", scripts }, null, 2)}\n`;
}

function config(start: string): string {
  return `import { mkdir, readFile, writeFile } from "node:fs/promises";
import { asset, daily, definePawl } from "pawl";

const data = new URL("./data/", import.meta.url);
const days = daily({ start: "${start}" });

/** One file a day; a real one would fetch the day's visits from somewhere. */
const visits = asset("visits", {
  description: "Visits of a day",
  partitions: days,
  materialize: async (ctx) => {
    const count = 100 + (Number(ctx.partition.replaceAll("-", "")) % 37);
    await mkdir(new URL("visits/", data), { recursive: true });
    await writeFile(new URL(\`visits/\${ctx.partition}.json\`, data), JSON.stringify({ count }));
    return { metadata: { count } };
  },
});

/** Made from the visits of the same day, always after them. */
const report = asset("report", {
  description: "A sentence about the day",
  partitions: days,
  upstream: [visits],
  materialize: async (ctx) => {
    const text = await readFile(new URL(\`visits/\${ctx.partition}.json\`, data), "utf8");
    const { count } = JSON.parse(text);
    await mkdir(new URL("report/", data), { recursive: true });
    await writeFile(new URL(\`report/\${ctx.partition}.txt\`, data), \`\${count} visits\\n\`);
    ctx.log(\`\${ctx.partition}: \${count} visits\`);
  },
});\n\nexport default definePawl({ assets: [visits, report] });
`;
}

function readme(name: string): string {
  return `# ${name === "" ? "A Pawl project" : name}

\`pawl.config.ts\` defines two assets with one partition a day: \`visits\`, and \`report\`, which is made
from them. What they write lies in \`data/\`; what Pawl remembers lies in \`.pawl/\`.

\`\`\`sh
pawl backfill create visits report --all --wait   # fill every day; runs without a server
pawl partitions summary report                    # what is filled
pawl dev                                          # serve, and load the code again on changes
pawl events --follow                              # watch, from another terminal
\`\`\`

\`pawl --help\` lists all commands.
`;
}
