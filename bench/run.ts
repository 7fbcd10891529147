import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { apiWrites } from "./api-writes.ts";
import type { Benchmark, Figure } from "./benchmark.ts";
import { killChildren } from "./child-process.ts";
import { capture } from "./capture.ts";
import { readCommandLine } from "./command-line.ts";
import { cutover } from "./cutover.ts";
import { deadWorker } from "./dead-worker.ts";
import { manySyncs } from "./many-syncs.ts";
import { move } from "./move.ts";
import { moveMemory } from "./move-memory.ts";
import { million } from "./million.ts";
import { page } from "./page.ts";
import { partitionsBatch } from "./partitions-batch.ts";
import { partitionsSingle } from "./partitions-single.ts";
import { partitionsSinglePostgres } from "./partitions-single-postgres.ts";
import { peers } from "./peers.ts";
import { refold } from "./refold.ts";
import { restart } from "./restart.ts";
import { schedules } from "./schedules.ts";
import { sensors } from "./sensors.ts";
import { slotLatency } from "./slot-latency.ts";
import { startUp } from "./start-up.ts";
import { stalePartitions } from "./stale-partitions.ts";
import { syncPonder } from "./sync-ponder.ts";
import { tenMillion } from "./ten-million.ts";

/*
 * `npm run bench` runs all, `npm run bench -- partitions api` those whose name has one of the words.
 * `--profile <folder>` has every process write its CPU profile there.
 */

const BENCHMARKS: readonly Benchmark[] = [
  partitionsSingle,
  partitionsBatch,
  partitionsSinglePostgres,
  apiWrites,
  slotLatency,
  million,
  tenMillion,
  refold,
  restart,
  deadWorker,
  stalePartitions,
  schedules,
  sensors,
  manySyncs,
  syncPonder,
  move,
  moveMemory,
  capture,
  cutover,
  page,
  startUp,
  peers,
];

const asked = readCommandLine(process.argv.slice(2), BENCHMARKS);
if ("usage" in asked) {
  console.log(asked.usage);
  process.exit();
}
if ("refusal" in asked) {
  console.error(asked.refusal);
  process.exit(2);
}
const { benchmarks, profile } = asked;

type Line = Figure & { name: string };

const lines: Line[] = [];
for (const benchmark of benchmarks) lines.push(...(await runOne(benchmark)));
const cores = cpus();
console.log(
  `\nNode ${process.versions.node}, ${cores.length} cores of ${cores[0]?.model.trim()}\n`,
);
console.log(tableOf(lines));

async function runOne({ name, run }: Benchmark): Promise<Line[]> {
  const folder = mkdtempSync(join(tmpdir(), "pawl-bench-"));
  const profileFolder = profile === undefined ? null : resolve(profile, name);
  if (profileFolder !== null) mkdirSync(profileFolder, { recursive: true });
  const say = (line: string): void => console.error(`${name}: ${line}`);
  try {
    const figures = await run({ folder, profileFolder, say });
    for (const { what, setting, value } of figures) say(`${what}: ${value} (${setting})`);
    return figures.map((figure) => ({ name, ...figure }));
  } catch (error) {
    console.error(`${name} failed:`, error);
    process.exitCode = 1;
    return [];
  } finally {
    killChildren();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A table that is readable as it stands and in Markdown. */
function tableOf(all: readonly Line[]): string {
  const rows = all.map(({ name, what, setting, value, bar, isReached }) => [
    name,
    what,
    setting,
    value,
    bar ?? "",
    isReached === null ? "" : isReached ? "yes" : "no",
  ]);
  const head = ["benchmark", "what", "setting", "figure", "bar", "reached"];
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const lineOf = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return [lineOf(head), rule, ...rows.map(lineOf)].join("\n");
}
