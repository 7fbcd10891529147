import { readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { EXIT_CODES } from "../../src/cli/base/run-command.ts";
import { ERRORS } from "../../src/kernel/errors.ts";
import { EVENTS } from "../../src/work/events.ts";
import { ERROR_STATUS } from "../../src/server/http/input-problems.ts";
import { BACKFILL_RULES } from "../../src/work/backfill/rules.ts";
import { BackfillStateField } from "../../src/work/backfill/documents.ts";
import { type CommandRules, effectOf, hindranceOf, wordOf } from "../../src/work/command.ts";
import {
  ENTITY_RULES,
  SCHEDULE_RULES,
  SENSOR_RULES,
  WEBHOOK_RULES,
} from "../../src/work/definition/rules.ts";
import { MoveStateField } from "../../src/work/move/events.ts";
import { MOVE_RULES } from "../../src/work/move/rules.ts";
import { SplitPhaseField } from "../../src/work/split/events.ts";
import { SPLIT_RULES, type SplitFacts } from "../../src/work/split/rules.ts";
import { SyncStateField } from "../../src/work/sync/events.ts";
import { SYNC_RULES } from "../../src/work/sync/rules.ts";
import { readSource, sourceFiles } from "./source-files.ts";

/** The first group of every match, in order of the text. */
function all(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map((match) => match[1] ?? "");
}

const byNumber = (a: string, b: string): number => Number(a.slice(1)) - Number(b.slice(1));

describe("docs/errors.md", () => {
  test("explains exactly the error codes there are, with their status, exit code and retry rule", () => {
    const rows = readSource("docs/errors.md").matchAll(
      /^\| `([A-Z_]+)` \| (\d+) \| (\d+) \| (yes|no) \| \S.* \| \S.* \|$/gm,
    );
    const explained = [...rows].map(([, code, status, exit, again]) => [code, status, exit, again]);
    const codes = Object.keys(ERRORS) as (keyof typeof ERRORS)[];
    expect(explained).toEqual(
      codes.map((code) => [
        code,
        `${ERROR_STATUS[code]}`,
        `${EXIT_CODES[code]}`,
        ERRORS[code].retryable ? "yes" : "no",
      ]),
    );
  });
});

describe("docs/events.md", () => {
  test("explains exactly the events there are", () => {
    const explained = all(readSource("docs/events.md"), /^(?:#{2,4} |\| )`([A-Z][A-Za-z]+)`/gm);
    expect(explained.toSorted()).toEqual(Object.keys(EVENTS).toSorted());
  });
});

describe("docs/commands.md", () => {
  /** A split that nothing stands in the way of. */
  const split: Omit<SplitFacts, "phase"> = {
    split_id: "",
    source: "the source",
    target: "the target",
    tenants: ["one"],
    grace_ms: 86_400_000,
    state_version: 1,
    wanted: null,
    checks: [],
    step: null,
    step_state: null,
    run_pos: null,
    error: null,
    armed: 1,
    committing: 0,
    backfill_status: "completed",
    tail_status: "caught_up",
    verification: { ok: true, ranges: 0, rows: 0, finished: true, note: null },
  };

  /** The table of a kind: a command stands there with the states in which something can come of it. */
  function tableOf<Facts, State extends string>(
    title: string,
    noun: string,
    rules: CommandRules<Facts, State>,
    states: readonly State[],
    factsIn: (state: State) => readonly Facts[],
  ): string {
    const rows = Object.entries(rules).map(([command, rule]) => {
      const possible = states.flatMap((state) => {
        const facts = factsIn(state).find((each) => hindranceOf(rule, state, each) === null);
        return facts === undefined ? [] : [{ word: wordOf(state), effect: effectOf(rule, facts) }];
      });
      const byEffect = Map.groupBy(possible, ({ effect }) => effect);
      const effects = [...byEffect].map(([effect, of]) =>
        byEffect.size === 1 ? effect : `${of.map(({ word }) => word).join(", ")}: ${effect}`,
      );
      const words = possible.map(({ word }) => word).join(", ");
      return `| \`pawl ${noun} ${command}\` | ${words} | ${effects.join("; ")} |`;
    });
    const head = "| command | while it is | what it does |\n| --- | --- | --- |";
    return `## ${title}\n\n${head}\n${rows.join("\n")}\n`;
  }

  const sections = [
    tableOf("Backfills", "backfill", BACKFILL_RULES, BackfillStateField.options, () => [
      {
        after_backfill_id: "",
        partitions_failed: 1,
        partitions_cancelled: 0,
        partitions_skipped: 0,
        cancel_runs: false,
      },
    ]),
    tableOf(
      "Schedules",
      "schedule",
      { ...SCHEDULE_RULES, ...ENTITY_RULES },
      ["ACTIVE", "PAUSED", "DELETED"],
      () => [null],
    ),
    tableOf(
      "Sensors",
      "sensor",
      { ...SENSOR_RULES, ...ENTITY_RULES },
      ["ACTIVE", "PAUSED", "ERROR", "DELETED"],
      () => [{ mode: "poll" } as const],
    ),
    tableOf(
      "Webhooks",
      "webhook",
      { ...WEBHOOK_RULES, ...ENTITY_RULES },
      ["ACTIVE", "PAUSED", "DELETED"],
      () => [null],
    ),
    tableOf("Syncs", "sync", SYNC_RULES, SyncStateField.options, () => [
      { name: "", target_key: "", planned_to: 1, isInCode: () => false },
    ]),
    tableOf("Moves", "move", MOVE_RULES, MoveStateField.options, () => [
      { move_id: "", segments_poisoned: 1, dry_run: false, keep_source: false },
    ]),
    tableOf("Splits", "split", SPLIT_RULES, SplitPhaseField.options, (phase) => [
      { ...split, phase },
      { ...split, phase, step: "copy", step_state: "FAILED" } as const,
    ]),
  ];

  const intro = `# What is legal when

Every command, the states in which it does something, and what it does. In another state the API
refuses it with \`STATE_ILLEGAL\` and the legal states in \`details\`, or answers it as a repeat that
changes nothing. More may stand in the way, such as a step that failed: the refusal says what, and so
does the button on the page. Each command takes \`expected_state_version\`, and is refused with
\`STATE_VERSION_MISMATCH\` when that is not the current one.

This page is written from the rules of each kind, such as \`src/work/split/rules.ts\`, by
\`npx vitest run test/repo/docs.test.ts -u\`.
`;

  test("tells when each command is legal, as the rules have it that decide it", async () => {
    const page = [intro, ...sections].join("\n");
    await expect(page).toMatchFileSnapshot("../../docs/commands.md");
  });

  test("names commands that the command line has, with a sub-command for every rule", () => {
    const help = readSource("test/repo/frozen/cli-help.txt");
    const known = new Set(all(help, /^\$ (pawl .+) --help$/gm));
    const named = all(sections.join("\n"), /^\| `(pawl [a-z -]+?)(?: --[a-z]+)?` \|/gm);
    expect(named.length).toBeGreaterThan(30);
    expect(named.filter((command) => !known.has(command))).toEqual([]);
  });
});

describe("docs/architecture.md", () => {
  test("tells of exactly the layers there are", () => {
    const told = all(readSource("docs/architecture.md"), /^\| `([a-z]+)` \|/gm);
    const folders = readdirSync(new URL("../../src", import.meta.url), { withFileTypes: true });
    const there = folders.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    expect(told.toSorted()).toEqual(there.toSorted());
  });
});

describe("docs/invariants.md", () => {
  const [held = "", later = ""] = readSource("docs/invariants.md").split("## Not yet");
  const promisedNow = all(held, /^\| (I\d+) \| \S.* \| \S.* \|$/gm);
  const promisedLater = all(later, /^- (I\d+) /gm);

  const tests = sourceFiles().filter(({ path }) => /^src\/.*\.test\.ts$|^test\/.*\.ts$/.test(path));
  const titles = tests.flatMap(({ text }) => all(text, /["'`]((?:I\d+[ ,]*)+): /g));
  const named = new Set(titles.flatMap((title) => all(title, /(I\d+)/g)));

  test("numbers its promises from I1 without a hole or a repetition", () => {
    const numbers = [...promisedNow, ...promisedLater].toSorted(byNumber);
    expect(numbers).toEqual(numbers.map((_, index) => `I${index + 1}`));
    expect(numbers).toHaveLength(109);
  });

  test("has a test that names each promise held now", () => {
    expect(promisedNow.filter((promise) => !named.has(promise))).toEqual([]);
  });

  test("has every promise that a test names, and as one held now", () => {
    const promised = new Set(promisedNow);
    const unknown = [...named].filter((promise) => !promised.has(promise));
    expect(unknown.toSorted(byNumber)).toEqual([]);
  });
});

describe("CHANGELOG.md", () => {
  test("has a section for what is not released yet", () => {
    expect(readSource("CHANGELOG.md")).toMatch(/^## \[Unreleased\]$/m);
  });
});

describe("decision records", () => {
  test("are numbered from 0001 and say all that a record says", () => {
    const records = sourceFiles("docs/decisions").toSorted((a, b) => (a.path < b.path ? -1 : 1));
    records.forEach(({ path, text }, index) => {
      expect(path).toContain(`/${String(index + 1).padStart(4, "0")}-`);
      for (const part of ["Status", "Context", "Decision", "Consequences", "Instead of"]) {
        expect(text, path).toContain(`**${part}**:`);
      }
    });
  });
});

describe("pictures", () => {
  test("are those that the script takes, and each is shown somewhere", () => {
    const screens = all(readSource("scripts/screenshots.ts"), /\bname: "([a-z-]+)"/g);
    const drawings = all(readSource("bench/peers/report.ts"), /docs\/images\/([a-z-]+\.svg)/g);
    const taken = [...screens.map((name) => `${name}.png`), ...drawings].toSorted();
    const kept = readdirSync(new URL("../../docs/images", import.meta.url));
    expect(kept.toSorted()).toEqual(taken);
    const documents = sourceFiles().filter(({ path }) => path.endsWith(".md"));
    const shown = documents.flatMap(({ text }) => all(text, /images\/([a-z-]+\.(?:png|svg))\)/g));
    expect([...new Set(shown)].toSorted()).toEqual(taken);
  });
});

describe.each(["package-lock.json", "docs/package-lock.json"])("%s", (file) => {
  const lockfile = readSource(file);

  test("names no host, so that every registry can serve it", () => {
    expect(lockfile).not.toContain("://registry");
    expect(lockfile).not.toMatch(/"resolved":\s*"http/);
  });

  test("has the packages of every platform, without which a clean install is refused", () => {
    type Package = { optionalDependencies?: Record<string, string> };
    const { packages } = JSON.parse(lockfile) as { packages: Record<string, Package> };
    const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies).filter(
        (name) =>
          !(`node_modules/${name}` in packages || `${path}/node_modules/${name}` in packages),
      ),
    );
    expect(missing).toEqual([]);
  });
});

test("no file names the host of a package registry", () => {
  const host = /\bregistry\.[a-z0-9-]+\.[a-z]{2,}|\bnpmjs\.[a-z]{2,}|\byarnpkg\.[a-z]{2,}/;
  const broken = sourceFiles().filter(({ text }) => host.test(text));
  expect(broken.map(({ path }) => path)).toEqual([]);
});
