import {
  chmodSync,
  cpSync,
  existsSync,
  mkdtempSync,
  mkdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { freshDatabaseUrl } from "../postgres.ts";
import { readSource, sourceFiles } from "../repo/source-files.ts";
import { EXAMPLE_SCENE, guideScenes, type Scene } from "./docs-scenes.ts";
import { plainEnvironment, ROOT } from "./example-project.ts";
import { alike, type Block, blocksOf, cloneLike, runBlocks } from "./readme-blocks.ts";
import {
  type MailServer,
  startMailServer,
  startReceiver,
  type WebhookReceiver,
} from "./webhook-receiver.ts";

// The commands of the guide, page by page, in one project on one server. What they print is compared with what
// the page shows. At the end: no page has a command that no test runs.

const RUN_MS_MAX = 800_000;

/** Pages whose commands other tests run: those that begin so, and the file of the test. */
const RUN_ELSEWHERE: Record<string, string> = {
  "README.md": "readme",
  "create-pawl/README.md": "install",
  "docs/coming-from/": "docs-pages",
  "docs/guide/other-languages.md": "other-languages",
  "docs/recipes/": "docs-pages",
  "docs/start.md": "docs-pages",
  "examples/live-split/": "live-split-readme",
  "examples/python-worker/": "python-worker",
  "examples/wallet-sync/": "wallet-sync-readme",
  "templates/": "install",
};

/** A command in a block, which may be without a language. */
const COMMAND =
  /^(?:\$ )?(?:[A-Z_]+=\S* )*(?:pawl|npm|npx|pnpm|node|git|curl|docker|psql|sqlite3) /m;
/** Stands between what prepares a block and what the block prints. */
const PAGE = "<<page>>";

/** A line without what else differs: whole tables are compared by their words. */
function shape(line: string): string {
  return alike(line.replaceAll(/\b[\w.-]+:\d+:[0-9A-HJKMNP-TV-Z]{26}\b/g, "WORKER"));
}

/** A block of a page, and what it printed. */
type Typed = { page: string; block: Block; printed: string };

/** Has the blocks of all scenes typed in one shell, after others. */
async function play(
  folder: string,
  start: readonly string[],
  scenes: readonly Scene[],
  surroundings: NodeJS.ProcessEnv,
): Promise<Typed[]> {
  const typed = scenes.flatMap(({ page, places, before }) => {
    const all = blocksOf(readSource(page));
    for (const text of Object.keys(before)) {
      const having = all.filter(({ commands }) => commands.includes(text));
      expect(having, `blocks of ${page} with ${text}`).toHaveLength(1);
    }
    return all.map((block) => {
      const placed = places.reduce((text, [named, here]) => {
        expect(readSource(page), `${page} names it`).toContain(named);
        return text.replaceAll(named, here);
      }, block.commands);
      const prepare = Object.entries(before).flatMap(([text, typedBefore]) =>
        block.commands.includes(text) ? [typedBefore] : [],
      );
      const commands = `${prepare.join("\n")}\necho "${PAGE}"\n${placed.replaceAll(SERVES, inBackground)}\n`;
      return { page, block, commands };
    });
  });
  const blocks = [...start, ...typed.map(({ commands }) => commands)];
  const printed = await runBlocks(
    folder,
    blocks.map((commands) => ({ commands, output: null })),
    RUN_MS_MAX,
    surroundings,
  );
  expect(printed, printed.join("")).toHaveLength(blocks.length + 1);
  return typed.map(({ page, block }, at) => {
    return { page, block, printed: printed[start.length + at] ?? "" };
  });
}

/** What is wrong: commands that failed, and lines of the page that were not printed. */
function faultsOf(typed: readonly Typed[]): string[] {
  return typed.flatMap(({ page, block: { output }, printed }) => {
    const [, said = ""] = printed.split(`${PAGE}\n`);
    const lines = new Set(said.split("\n").map(shape));
    const missing = (output ?? "").split("\n").filter((line) => !lines.has(shape(line)));
    const failed = printed.match(/<<failed: .*>>/g) ?? [];
    const faults = [...failed, ...missing.filter((line) => line !== "")];
    return faults.length === 0 ? [] : [[page, ...faults, "It printed:", printed].join("\n")];
  });
}

describe("the commands of the guide", () => {
  let folder = "";
  let receiver: WebhookReceiver;
  let mail: MailServer;
  let typed: Typed[] = [];

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "pawl-docs-"));
    receiver = await startReceiver();
    mail = await startMailServer();
    cpSync(join(ROOT, "test", "end-to-end", "docs-project"), folder, { recursive: true });
    const modules = join(folder, "node_modules");
    mkdirSync(modules);
    symlinkSync(join(dirname(inject("pawlCommand")), ".."), join(modules, "pawl"));
    for (const name of ["better-sqlite3", "pg"]) {
      symlinkSync(join(ROOT, "node_modules", name), join(modules, name));
    }
    writeFileSync(join(folder, "package.json"), '{ "type": "module", "private": true }');
    mkdirSync(join(folder, "bin"));
    const bin = join(folder, "bin", "pawl");
    writeFileSync(bin, `#!/bin/sh\nexec "${process.execPath}" "${inject("pawlCommand")}" "$@"\n`);
    chmodSync(bin, 0o755);
    const database = await freshDatabaseUrl();
    const scenes = guideScenes({ receiver: receiver.url, database });
    typed = await play(folder, [START_SERVER], scenes, {
      ...plainEnvironment(),
      PATH: `${join(folder, "bin")}:${process.env["PATH"]}`,
      PAWL_WEBHOOK_HOSTS: receiver.host,
      PAWL_SMTP_URL: `smtp://127.0.0.1:${mail.port}`,
      PAWL_EMAIL_FROM: "pawl@example.com",
    });
  }, RUN_MS_MAX + 60_000);
  afterAll(async () => {
    await receiver.close();
    await mail.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test("all work, in the order they stand there, and print what the pages show", () => {
    expect(typed.length).toBeGreaterThan(30);
    expect(faultsOf(typed)).toEqual([]);
  });

  test("tell those who are to be notified", () => {
    expect(receiver.received.length).toBeGreaterThan(1);
    expect(mail.received.length).toBeGreaterThan(0);
  });
});

test("the commands of the first example work, and print what its page shows", async () => {
  const clone = cloneLike("sales", dirname(inject("pawlCommand")));
  try {
    const folder = join(clone, "examples", "sales");
    const start = `export PATH="${join(clone, "bin")}:$PATH"\n`;
    expect(faultsOf(await play(folder, [start], [EXAMPLE_SCENE], plainEnvironment()))).toEqual([]);
  } finally {
    rmSync(clone, { recursive: true, force: true });
  }
});

/** A server that is left running in a terminal. */
const START_SERVER = `pawl start --port 0 > server.log 2>&1 &
server=$!
until grep -qs "listens on" server.log; do sleep 0.1; done
url=$(sed -n 's/.*listens on \\(http[^ ]*\\).*/\\1/p' server.log | head -n 1)
`;

/** What serves until it is ended. */
const SERVES = /^(?:[A-Z_]+=\S* )*pawl (?:worker|shard serve) .*$/gm;

function inBackground(command: string): string {
  return `rm -f serves.log
${command} > serves.log 2>&1 &
until test -s serves.log; do kill -0 $! && sleep 0.1; done
cat serves.log
kill $!
wait $!`;
}

describe("commands in documents", () => {
  const pages = sourceFiles()
    .filter(({ path }) => path.endsWith(".md") && !path.startsWith("docs/decisions/"))
    .map(({ path, text }) => ({
      path,
      all: [...text.matchAll(/^ *```(\S*)[^\n]*\n(.*?)^ *```$/gms)].map(
        ([, language = "", code = ""]) => ({ language, code }),
      ),
    }));
  const withCommands = pages.filter(({ all }) => all.some(({ language }) => language === "sh"));
  const here = [...guideScenes({ receiver: "", database: "" }), EXAMPLE_SCENE].map(
    ({ page }) => page,
  );

  test("are in blocks that say so", () => {
    const hidden = pages.flatMap(({ path, all }) =>
      all
        .filter(
          ({ language, code }) => /^(?:|console|shell|zsh)$/.test(language) && COMMAND.test(code),
        )
        .map(({ code }) => `${path}: ${code}`),
    );
    expect(hidden).toEqual([]);
  });

  test("are run by a test, on every page", () => {
    const owners = [...here, ...Object.keys(RUN_ELSEWHERE)];
    const ownersOf = (path: string) => owners.filter((owner) => path.startsWith(owner));
    for (const { path } of withCommands) expect(ownersOf(path), path).toHaveLength(1);
    const idle = owners.filter((owner) => !withCommands.some(({ path }) => path.startsWith(owner)));
    expect(idle).toEqual([]);
  });

  test.for(Object.entries(RUN_ELSEWHERE))("those of %s by a test that there is", ([, name]) => {
    expect(existsSync(join(ROOT, "test", "end-to-end", `${name}.test.ts`))).toBe(true);
  });
});
