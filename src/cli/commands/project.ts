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
import { projectFiles } from "../base/project-template.ts";

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
