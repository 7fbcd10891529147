import fc from "fast-check";
import { createHash } from "node:crypto";
import type { Command } from "commander";
import { expect, test } from "vitest";
import type { Cli } from "../../src/cli/cli.ts";
import { buildProgram } from "../../src/cli/program.ts";
import { canonicalJson } from "../../src/kernel/canonical.ts";
import { openApi } from "../../src/server/http/openapi.ts";

// What users have come to rely on stands in files, so that whoever changes it sees what changes.
// `npx vitest run test/repo/frozen -u` writes them anew.

/** The help of a command and of all below it, each under its name. */
function helpOf(command: Command, above: string): string[] {
  const name = `${above}${command.name()}`;
  // As wide as it needs to be: a longer word must not move others.
  command.configureHelp({ helpWidth: 1_000 });
  const own = `$ ${name} --help\n${command.helpInformation()}`;
  return [own, ...command.commands.flatMap((each) => helpOf(each, `${name} `))];
}

test("the help of every command says what it said", async () => {
  const sink = { write: () => true };
  const cli = { terminal: { stdout: sink, stderr: sink } } as unknown as Cli;
  const text = helpOf(await buildProgram(cli), "").join("\n");
  await expect(text).toMatchFileSnapshot("frozen/cli-help.txt");
  // Commands that the arguments do not name are listed without their files.
  const listed = (await buildProgram(cli, ["--help"])).helpInformation();
  expect(listed).toBe((await buildProgram(cli)).helpInformation());
});

test("every operation and document of the API is as it was", async () => {
  const digest = (value: unknown): string =>
    createHash("sha256").update(canonicalJson(value)).digest("hex").slice(0, 16);
  const { paths, components } = openApi("0.0.0");
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(
      ([method, each]) =>
        `${method.toUpperCase()} ${path} ${String(each["operationId"])} ${digest(each)}`,
    ),
  );
  const documents = Object.entries(components.schemas).map(
    ([name, each]) => `${name} ${digest(each)}`,
  );
  const lines = [...operations.toSorted(), "", ...documents.toSorted(), ""];
  await expect(lines.join("\n")).toMatchFileSnapshot("frozen/api.txt");
});

test("properties draw the same cases each time", () => {
  expect(fc.readConfigureGlobal()).toMatchObject({ seed: 1 });
});
