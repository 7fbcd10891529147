import type { Command } from "commander";
import { act, type Cli, type GlobalOptions, projectOf } from "../cli.ts";
import { loadSpecs, publish, CONFIG_FILE } from "../base/project.ts";
import { createLog } from "../base/log.ts";
import { withApi } from "../base/api.ts";
import { print, paint, type Terminal } from "../base/terminal.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Finding } from "../base/examine.ts";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { makeDirectory } from "../../store/make-directory.ts";
import { basename, join, relative, resolve } from "node:path";

/** Adds the command that publishes a project's definitions. */
export function addDeployCommand(program: Command, cli: Cli): void {
  program
    .command("deploy")
    .description("publish this project's definitions")
    .action(
      act(async (options: GlobalOptions) => {
        const project = projectOf(cli, options);
        const log = createLog(cli.terminal, cli.env, { level: "warn", pretty: true });
        const loaded = await loadSpecs(project, log);
        await withApi(cli, options, "rows", async ({ client }) => {
          const published = await publish(client, loaded);
          const { definition_version: version } = published;
          const [changed, removed] = [published.changed.length, published.removed.length];
          print(cli.terminal, published, () => {
            const what = changed + removed === 0 ? "Nothing has changed" : "Published";
            return (
              `${what}: ${loaded.specs.length} definitions, ${changed} new or different, ` +
              `${removed} removed (version ${version}).`
            );
          });
        });
      }),
    );
}

/** Adds the command that looks for what would keep Pawl from working here. */
export function addDoctorCommand(program: Command, cli: Cli): void {
  program
    .command("doctor")
    .description("look for what would keep Pawl from working here")
    .action(
      act(async (options: GlobalOptions) => {
        const { examine } = await import("../base/examine.ts");
        const findings = await examine(cli, options);
        const failures = findings.flatMap(({ failure }) => (failure === null ? [] : [failure]));
        const items = findings.map(({ name, detail, failure }) => ({
          name,
          ok: failure === null,
          detail,
          code: failure?.code ?? null,
        }));
        print(cli.terminal, { ok: failures.length === 0, items }, () => {
          return findings.map((finding) => line(cli.terminal, finding)).join("\n");
        });
        const first: PawlError | undefined = failures[0];
        if (first !== undefined) throw first;
      }),
    );
}

function line(terminal: Terminal, { name, detail, failure }: Finding): string {
  const mark = failure === null ? paint(terminal, "green", "✓") : paint(terminal, "red", "✗");
  return `${mark} ${name.padEnd(14)} ${detail}`;
}

/** Adds the command that makes a project. */
export function addInitCommand(program: Command, cli: Cli): void {
  program
    .command("init")
    .description("make a new project that runs at once")
    .argument("[directory]", "where; here when left out")
    .action(
      act(async (_options: object, directory?: string) => {
        const target = resolve(cli.cwd, directory ?? ".");
        const made = makeProject(target, cli.terminal.now());
        print(cli.terminal, { directory: target, ...made }, () => madeText(cli, target, made));
      }),
    );
}

type Made = { created: string[]; kept: string[]; hints: string[] };

/** Makes the files of a project that are not there yet. Throws STATE_ILLEGAL over a project. */
function makeProject(directory: string, now: number): Made {
  if (existsSync(join(directory, CONFIG_FILE))) {
    throw new PawlError(
      "STATE_ILLEGAL",
      `${join(directory, CONFIG_FILE)} exists already; nothing was changed. Name another directory.`,
      { details: { directory } },
    );
  }
  const made: Made = { created: [], kept: [], hints: [] };
  try {
    makeDirectory(directory);
    for (const [name, text] of Object.entries(projectFiles(basename(directory), now))) {
      const path = join(directory, name);
      if (existsSync(path)) made.kept.push(name);
      else {
        writeFileSync(path, text, { flag: "wx" });
        made.created.push(name);
      }
    }
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? String(cause);
    throw new PawlError(
      "DATA_DIRECTORY_UNWRITABLE",
      `A project cannot be made in ${directory} (${reason}). Name a directory that can be written.`,
      { cause, details: { directory } },
    );
  }
  made.hints.push(...hintsOf(directory, made.kept));
  return made;
}

/** What has to be added by hand to files that were there before. */
function hintsOf(directory: string, kept: readonly string[]): string[] {
  const textOf = (name: string): string => readFileSync(join(directory, name), "utf8");
  const hints: string[] = [];
  if (kept.includes("package.json") && !/"type"\s*:\s*"module"/.test(textOf("package.json"))) {
    hints.push('Add "type": "module" to package.json.');
  }
  if (kept.includes(".gitignore") && !textOf(".gitignore").includes(".pawl")) {
    hints.push("Add .pawl/ to .gitignore.");
  }
  return hints;
}

function madeText(cli: Cli, directory: string, { created, kept, hints }: Made): string {
  const there = relative(cli.cwd, directory);
  const lines = [
    `Made ${created.join(", ")} in ${directory}.`,
    ...(kept.length === 0 ? [] : [`Left ${kept.join(", ")} as it was.`]),
    ...hints,
    "",
    "Next:",
    ...(there === "" ? [] : [`  cd ${there}`]),
    "  pawl backfill create visits report --all --wait",
    "  pawl dev",
  ];
  return lines.join("\n");
}

const DAY_MS = 86_400_000;
const DAYS_AT_FIRST = 30;

/** The files of a new project, by name. */
function projectFiles(directoryName: string, now: number): Readonly<Record<string, string>> {
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
