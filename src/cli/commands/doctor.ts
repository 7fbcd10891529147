import type { Command } from "commander";
import type { PawlError } from "../../core/errors.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import type { Finding } from "../examine.ts";
import { paint, print, type Terminal } from "../terminal.ts";

/** Adds the command that looks for what would keep Pawl from working here. */
export function addDoctorCommand(program: Command, cli: Cli): void {
  program
    .command("doctor")
    .description("look for what would keep Pawl from working here")
    .action(
      act(async (options: GlobalOptions) => {
        const { examine } = await import("../examine.ts");
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
