import type { Command } from "commander";
import { act, type Cli, type GlobalOptions, projectOf } from "../cli.ts";
import { loadSpecs, publish } from "../base/project.ts";
import { createLog } from "../base/log.ts";
import { withApi } from "../base/api.ts";
import { print, paint, type Terminal } from "../base/terminal.ts";
import { PawlError } from "../../kernel/errors.ts";
import { hintOf } from "../base/options.ts";
import type { Finding } from "../base/examine.ts";
import { relative, resolve } from "node:path";
import { makeProject, type MadeProject, type TemplateName, TEMPLATES } from "../make-project.ts";

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
    .option("--template <name>", `what it does: ${TEMPLATES.join(", ")}`, "assets")
    .action(
      act(async (options: { template: string }, directory?: string) => {
        const template = TEMPLATES.find((name) => name === options.template);
        if (template === undefined) throw noSuchTemplate(options.template);
        const target = resolve(cli.cwd, directory ?? ".");
        const made = makeProject({ directory: target, template, now: cli.terminal.now() });
        const next = nextCommands(cli, target, template);
        print(cli.terminal, { directory: target, template, ...made, next }, () =>
          madeText(target, made, next),
        );
      }),
    );
}

function noSuchTemplate(name: string): PawlError {
  const expected = `${TEMPLATES.slice(0, -1).join(", ")} or ${TEMPLATES.at(-1)}`;
  return new PawlError(
    "INPUT_INVALID",
    `--template: expected ${expected}, got ${JSON.stringify(name)}.${hintOf(name, TEMPLATES)}`,
    { details: { option: "--template", templates: TEMPLATES } },
  );
}

/** What is to be said in a new project, the last of it in another terminal. */
const FIRST_COMMANDS: Readonly<Record<TemplateName, readonly string[]>> = {
  assets: ["start", "pawl backfill create visits report --all --wait"],
  duckdb: ["start", "pawl backfill create orders turnover --all --wait"],
  "api-sync": ["run api", "start"],
  evm: ["start", "pawl sync overview"],
  shards: ["run prepare:shards", "start"],
};

/** The commands that follow, in the words of whoever called: npm, or what it says it is. */
function nextCommands({ cwd, env }: Cli, directory: string, template: TemplateName): string[] {
  const manager = /^(?:pnpm|yarn|bun)(?=\/)/.exec(env["npm_config_user_agent"] ?? "")?.[0] ?? "npm";
  const there = relative(cwd, directory);
  const execute = manager === "npm" ? "npx" : manager;
  return [
    ...(there === "" ? [] : [`cd ${asArgument(there)}`]),
    `${manager} install`,
    ...FIRST_COMMANDS[template].map((command) =>
      command.startsWith("pawl ") ? `${execute} ${command}` : `${manager} ${command}`,
    ),
  ];
}

/** A path as a shell takes it: as one word that is no option. */
function asArgument(path: string): string {
  const own = path.startsWith("-") ? `./${path}` : path;
  if (/^[\p{L}\p{N}_./\\:@+,=-]+$/u.test(own)) return own;
  return /["$`!]/.test(own) ? `'${own.replaceAll("'", "'\\''")}'` : `"${own}"`;
}

function madeText(
  directory: string,
  { created, changed, kept }: MadeProject,
  next: readonly string[],
): string {
  const lines = [
    created.length === 0 ? "" : `Made ${created.join(", ")} in ${directory}.`,
    ...changed,
    kept.length === 0 ? "" : `Left ${kept.join(", ")} as it was.`,
  ];
  return [
    ...lines.filter((each) => each !== ""),
    "",
    "Next:",
    ...next.map((command, index) => {
      const isAfterServer = /(?:start|api)$/.test(next[index - 1] ?? "");
      return `  ${command}${isAfterServer ? "   # in another terminal" : ""}`;
    }),
  ].join("\n");
}
