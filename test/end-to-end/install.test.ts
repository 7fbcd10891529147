import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startAnvil } from "../evm/anvil.ts";
import { readSource } from "../repo/source-files.ts";
import { ROOT } from "./example-project.ts";
import { type NpmRegistry, packedPackage, startRegistry } from "./npm-registry.ts";
import { alike, type Block, blocksOf, runBlocks } from "./readme-blocks.ts";

// What somebody does who has npm or pnpm and an empty folder, with the packages as they are published.

const RUN_MS_MAX = 600_000;
const CLONE_BIN = join(ROOT, "node_modules", ".bin");
/** The oldest release line of Node that Pawl runs on. */
const OLD_NODE = "22.23.3";

let folder = "";
let registry: NpmRegistry;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "pawl-install-"));
  for (const name of ["bin", "old-bin", "home", "npm"]) mkdirSync(join(folder, name));
  symlinkSync(process.execPath, join(folder, "bin", "node"));
  const pnpm = join(ROOT, "node_modules", "pnpm", "bin", "pnpm.mjs");
  writeFileSync(join(folder, "bin", "pnpm"), `#!/bin/sh\nexec node "${pnpm}" "$@"\n`, {
    mode: 0o755,
  });
  const args = ["pack", "--silent", "--pack-destination", folder, join(ROOT, "create-pawl")];
  const create = execFileSync("npm", args, { encoding: "utf8" }).trim();
  registry = await startRegistry([await packedPackage(), join(folder, create)]);
  const settings = [
    `registry=${registry.url}`,
    "audit=false",
    "fund=false",
    "update-notifier=false",
  ];
  writeFileSync(join(folder, "home", ".npmrc"), `${settings.join("\n")}\n`);
}, RUN_MS_MAX);

afterAll(() => {
  registry.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The environment of a user who has these commands, and nothing of ours. */
function environment(bin: string, more: Record<string, string> = {}): NodeJS.ProcessEnv {
  const others = (process.env["PATH"] ?? "").split(delimiter).filter((path) => path !== CLONE_BIN);
  const { NODE_COMPILE_CACHE } = process.env;
  return {
    PATH: [join(folder, bin), ...others].join(delimiter),
    HOME: join(folder, "home"),
    NODE_COMPILE_CACHE,
    // Any free one: servers of other tests run beside it.
    PAWL_PORT: "0",
    ...more,
  };
}

/** Runs what a user types in a folder; none of it may fail. What serves goes on until the end of it. */
async function typed(
  where: string,
  blocks: readonly (string | Block)[],
  surroundings: NodeJS.ProcessEnv,
): Promise<string[]> {
  const all = blocks.map((block) => {
    const { commands, output } =
      typeof block === "string" ? { commands: block, output: null } : block;
    return { commands: `${commands.trimEnd()}\n`.replaceAll(SERVES, inBackground), output };
  });
  const printed = await runBlocks(where, all, RUN_MS_MAX, surroundings);
  const text = printed.join("");
  expect(text.match(/<<failed: .*>>/g) ?? [], text).toEqual([]);
  expect(printed, text).toHaveLength(all.length + 1);
  return printed;
}

/** What a user leaves running in a terminal, and types the rest in another. */
const SERVES = /^(?:npm|pnpm) (?:start|run api)$/gm;

function inBackground(command: string): string {
  const log = `${command.replaceAll(" ", "-")}.log`;
  return `${command} > ${log} 2>&1 &\nuntil grep -qs "listens on" ${log}; do sleep 0.2; done`;
}

/** Fails unless the page is served, and says what came of the newest backfill. */
const LOOK_AT_PAGE = `node --input-type=module -e '
  const { url } = JSON.parse(fs.readFileSync(".pawl/server.json", "utf8"));
  const page = await (await fetch(url)).text();
  if (!page.includes("<title>")) throw new Error(page);
'
node_modules/.bin/pawl backfill list --json | node -p '
  const [{ asset_selection, state }] = JSON.parse(fs.readFileSync(0)).items;
  asset_selection + " " + state
'`;

describe("npm, in an empty folder", () => {
  const [before = ""] = readSource("README.md").split("## Five minutes");
  const blocks = blocksOf(before);
  let printed: string[] = [];

  beforeAll(async () => {
    printed = await typed(
      join(folder, "npm"),
      [
        ...blocks,
        LOOK_AT_PAGE,
        "npm test",
        "npm run check",
        ...blocksOf(readSource("templates/assets/README.md")),
      ],
      environment("bin"),
    );
  }, RUN_MS_MAX);

  test("the README's commands lead to a backfill of the project's own asset on the page", () => {
    expect(blocks.length).toBeGreaterThan(1);
    for (const [index, { output }] of blocks.entries()) {
      const actual = new Set((printed[index] ?? "").split("\n").map(alike));
      const missing = (output ?? "").split("\n").filter((line) => !actual.has(alike(line)));
      expect(
        missing.filter((line) => line !== ""),
        printed[index],
      ).toEqual([]);
    }
    expect(printed[blocks.length]).toBe("visits,report SUCCEEDED\n");
  });

  test("its own test passes", () => {
    expect(printed[blocks.length + 1]).toMatch(/pass 1$/m);
  });

  test.for(["duckdb", "api-sync", "evm", "shards"] as const)(
    "the template %s is tested, type-checked and does what its README says",
    { timeout: RUN_MS_MAX },
    async (template) => {
      const { prepare = [], more = {}, after = [], end } = await stageOf(template);
      try {
        // Below the first project, which has what all of them need but this.
        const libraries = Object.keys(dependenciesOf(template)).join(" ");
        await typed(
          join(folder, "npm"),
          [
            `npx pawl init ${template} --template ${template}`,
            ...(libraries === "" ? [] : [`npm install --no-save ${libraries}`]),
            `cd ${template}`,
            "npm test",
            "npm run check",
            ...prepare,
            ...blocksOf(readSource(`templates/${template}/README.md`)),
            ...after,
          ],
          environment("bin", more),
        );
      } finally {
        await end?.();
      }
    },
  );
});

function dependenciesOf(template: string): Record<string, string> {
  const path = join(ROOT, "templates", template, "package.json");
  const { dependencies = {} } = JSON.parse(readFileSync(path, "utf8")) as {
    dependencies?: Record<string, string>;
  };
  return dependencies;
}

/** What there is around a project while its README is followed. */
type Stage = {
  prepare?: readonly string[];
  more?: Record<string, string>;
  after?: readonly string[];
  end?: () => Promise<void>;
};

async function stageOf(template: "duckdb" | "api-sync" | "evm" | "shards"): Promise<Stage> {
  if (template === "duckdb") return {};
  if (template === "shards") return { prepare: ["npm start"] };
  if (template === "api-sync") {
    const port = await freePort();
    const stored =
      'import("./payments.ts").then((all) => console.log(all.countPayments(1, 20000)))';
    return {
      prepare: ["npm run api", "npm start"],
      more: { API_PORT: port, API_URL: `http://127.0.0.1:${port}` },
      after: [`until node -e '${stored}' | grep -qx 20000; do sleep 0.5; done`],
    };
  }
  const anvil = await startAnvil();
  await anvil.mine(20);
  const upTo20 = `grep -qE '"synced_to": ?20\\b'`;
  return {
    more: { FROM_BLOCK: "0", FINALITY: "0" },
    prepare: [
      // First without a node: it starts, and says what to set.
      "npm start",
      "until npx pawl sync overview | grep 'Set RPC_URL to the address'; do sleep 0.5; done",
      `kill "$(node -p 'JSON.parse(fs.readFileSync(".pawl/server.json", "utf8")).pid')"\nwait\nrm npm-start.log`,
      `export RPC_URL=${anvil.url}`,
      "npm start",
      `until npx pawl sync list --json | ${upTo20}; do sleep 0.5; done`,
    ],
    end: () => anvil.stop(),
  };
}

function freePort(): Promise<string> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(String(typeof address === "object" ? address?.port : "")));
    });
  });
}

test(
  "pnpm, in a folder whose package.json has no type",
  async () => {
    const where = join(folder, "pnpm");
    mkdirSync(where);
    writeFileSync(join(where, "package.json"), '{ "name": "shop" }\n');
    const printed = await typed(
      where,
      [
        "pnpm dlx pawl init",
        "pnpm install",
        "pnpm test",
        "pnpm run check",
        "pnpm start",
        "pnpm pawl backfill create visits report --all --wait",
        LOOK_AT_PAGE,
      ],
      environment("bin"),
    );
    expect(printed[0]).toContain('Set "type" to "module" in package.json.');
    expect(printed[0]).toMatch(/^ {2}pnpm pawl backfill create visits report /m);
    expect(printed[2]).toMatch(/pass 1$/m);
    expect(printed[6]).toBe("visits,report SUCCEEDED\n");
  },
  RUN_MS_MAX,
);

test(
  "npm create on Node 22, in a folder whose package.json has a type",
  async () => {
    symlinkSync(oldNode(), join(folder, "old-bin", "node"));
    const where = join(folder, "old");
    mkdirSync(where);
    writeFileSync(join(where, "package.json"), '{ "type": "module" }\n');
    const printed = await typed(
      where,
      [
        "node --version",
        "npm create pawl@latest",
        "npm install",
        "npm test",
        "npm run check",
        "npm start",
        "npx pawl backfill create visits report --all --wait",
        LOOK_AT_PAGE,
        ...blocksOf(readSource("create-pawl/README.md")),
      ],
      environment("old-bin"),
    );
    expect(printed[0]).toBe(`v${OLD_NODE}\n`);
    expect(printed[1]).not.toContain('"type"');
    expect(printed[3]).toMatch(/pass 1$/m);
    expect(printed[7]).toBe("visits,report SUCCEEDED\n");
  },
  RUN_MS_MAX,
);

test("create-pawl makes projects of the same version", () => {
  const { version } = JSON.parse(readSource("package.json")) as { version: string };
  const create = JSON.parse(readSource("create-pawl/package.json")) as Record<string, unknown>;
  expect(create).toMatchObject({ version, dependencies: { pawl: version } });
});

/** That Node, which npm installs once for this clone. */
function oldNode(): string {
  const cache = join(ROOT, "node_modules", ".cache", `pawl-node-${OLD_NODE}`);
  const { platform, arch } = process;
  const prefix = platform === "darwin" && arch === "arm64" ? "node-bin" : "node";
  const name = `${prefix}-${platform}-${arch}`;
  if (!existsSync(cache)) {
    const made = `${cache}-${process.pid}`;
    const args = ["install", "--prefix", made, "--no-save", "--silent", `${name}@${OLD_NODE}`];
    execFileSync("npm", args, { stdio: "inherit" });
    renameSync(made, cache);
  }
  return join(cache, "node_modules", name, "bin", "node");
}
