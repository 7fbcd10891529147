import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { type Figure, percentile, shown, told } from "../benchmark.ts";
import { type Panel, barChart } from "./bar-chart.ts";
import { type Contender, RECOVERY_MS_MAX, type Throughput } from "./contender.ts";
import { REDIS_SETTINGS } from "./redis-server.ts";

const PAGE = fileURLToPath(new URL("../../docs/benchmarks.md", import.meta.url));
const PICTURE = fileURLToPath(new URL("../../docs/images/peers.svg", import.meta.url));
const BEGIN = "<!-- written by `npm run bench -- peers` -->";
const END = "<!-- end of what is written -->";

/** What is asked of every contender. */
export type Trial = {
  jobs: number;
  rounds: number;
  /** How many jobs are asked for when waits are measured, and for how long. */
  perSecond: number;
  seconds: number;
};

/** What was found out about one contender, round by round. */
export type Measured = {
  readonly contender: Contender;
  readonly throughputs: Throughput[];
  /** Empty for one whose waits are those of another. */
  readonly p50Ms: number[];
  readonly p99Ms: number[];
  /** Null for one whose dead workers are as those of another. */
  recovery: { ms: number | null } | null;
};

/** The versions of the servers that contenders share. */
export type ServerVersions = { postgres: string; redis: string | null };

function median(values: readonly number[]): number {
  return percentile([...values], 0.5);
}

function medianOf(throughputs: readonly Throughput[], of: (each: Throughput) => number): number {
  return median(throughputs.map(of));
}

function memoryShown({ throughputs }: Measured): string {
  const own = medianOf(throughputs, ({ memoryBytes }) => memoryBytes);
  const server = medianOf(throughputs, ({ serverMemoryBytes }) => serverMemoryBytes);
  const shared = server === 0 ? "" : `, Redis ${shown(server / 1e6)} MB`;
  return `${shown(own / 1e6)} MB${shared}`;
}

/** How long a dead worker's job waited, or that it waited longer than was looked. */
export function recoveryShown({ contender, recovery }: Measured): string {
  if (recovery === null) return "as single";
  if (recovery.ms !== null) return `${shown(recovery.ms / 1_000)} s`;
  return `> ${RECOVERY_MS_MAX / 1_000} s (by default ${contender.afterDeath})`;
}

/** One figure for each thing that was measured. */
export function figuresOf(each: Measured, trial: Trial): Figure[] {
  const { contender, throughputs, p50Ms, p99Ms, recovery } = each;
  const name = `${contender.name} ${contender.version}`;
  const load = `${name}, ${shown(trial.jobs)} no-op jobs`;
  const slow = `${name}, ${trial.perSecond} jobs/s`;
  const words = (what: string, setting: string, value: string): Figure => ({
    what,
    setting,
    value,
    bar: null,
    isReached: null,
  });
  return [
    told("jobs, first request to last completion", load, medianOf(throughputs, perSecondOf), "/s"),
    ...(p50Ms.length === 0
      ? []
      : [
          told("request to start, p50", slow, median(p50Ms), "ms"),
          told("request to start, p99", slow, median(p99Ms), "ms"),
        ]),
    ...(recovery === null
      ? []
      : [words("kill -9 to its job running again", name, recoveryShown(each))]),
    words("peak memory", load, memoryShown(each)),
    told("rows for each job", load, medianOf(throughputs, rowsOf), ""),
    told("bytes on disk for each job", load, medianOf(throughputs, bytesOf), "bytes"),
  ];
}

const perSecondOf = ({ perSecond }: Throughput): number => perSecond;
const rowsOf = ({ perJob }: Throughput): number => perJob.rows;
const bytesOf = ({ perJob }: Throughput): number => perJob.bytes;

/** Versions and settings, a line for each. */
export function settingsOf(contenders: readonly Contender[], servers: ServerVersions): string[] {
  const redis = servers.redis === null ? [] : [`Redis ${servers.redis}: ${REDIS_SETTINGS}`];
  return [
    ...contenders.map(
      ({ name, version, settings, keeps, afterDeath }) =>
        `${name} ${version}: ${settings}; jobs that are done are ${keeps}, ` +
        `those of a dead worker run again ${afterDeath}`,
    ),
    `PostgreSQL ${servers.postgres}: its defaults but for \`max_connections\``,
    ...redis,
  ];
}

/** Puts the table into the page on benchmarks, and the picture beside the others. */
export function writeReport(all: readonly Measured[], trial: Trial, servers: ServerVersions): void {
  const page = readFileSync(PAGE, "utf8");
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`${PAGE} has no place for the table`);
  const text = [
    BEGIN,
    "",
    ...introduction(trial),
    "",
    "![Jobs a second and waits of Pawl and its peers](images/peers.svg)",
    "",
    ...tableOf(all),
    "",
    ...settingsOf(
      all.map(({ contender }) => contender),
      servers,
    ).map((line) => `- ${line}.`),
    "",
    "",
  ].join("\n");
  writeFileSync(PICTURE, pictureOf(all, trial));
  writeFileSync(PAGE, `${page.slice(0, begin)}${text}${page.slice(end)}`);
}

function introduction({ jobs, rounds, perSecond, seconds }: Trial): string[] {
  const cores = cpus();
  const day = new Date().toLocaleDateString("en-GB", {
    day: "numeric",
    month: "long",
    year: "numeric",
    timeZone: "UTC",
  });
  return [
    `${day}, Node ${process.versions.node}, ${cores.length} cores of ${cores[0]?.model.trim()}. ` +
      `Medians of ${rounds} rounds, the spread of jobs/s in brackets.`,
    `${shown(jobs)} no-op jobs; waits of ${shown(perSecond * seconds)} jobs at ${perSecond} a second.`,
  ];
}

function tableOf(all: readonly Measured[]): string[] {
  const rows = all.map((each) => {
    const { contender, throughputs, p50Ms, p99Ms } = each;
    const speeds = throughputs.map(perSecondOf);
    const spread = `${shown(Math.min(...speeds))} to ${shown(Math.max(...speeds))}`;
    const isOwn = p50Ms.length > 0;
    return [
      contender.name,
      `${shown(median(speeds))} (${spread})`,
      isOwn ? `${shown(median(p50Ms))} ms` : "as single",
      isOwn ? `${shown(median(p99Ms))} ms` : "as single",
      recoveryShown(each),
      memoryShown(each),
      shown(medianOf(throughputs, rowsOf)),
      shown(medianOf(throughputs, bytesOf)),
    ];
  });
  const head = [
    "queue",
    "jobs/s",
    "request to start, p50",
    "p99",
    "kill -9 to its job running again",
    "peak memory",
    "rows a job",
    "bytes a job",
  ];
  return [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
}

function pictureOf(all: readonly Measured[], { jobs, perSecond }: Trial): string {
  const isOurs = ({ contender }: Measured): boolean => contender.name.startsWith("Pawl");
  const speeds: Panel = {
    title: `No-op jobs a second, ${shown(jobs)} durable jobs (longer is better)`,
    bars: all.map((each) => ({
      label: each.contender.name,
      value: medianOf(each.throughputs, perSecondOf),
      isMarked: isOurs(each),
    })),
  };
  const waits: Panel = {
    title: `Milliseconds from request to start, p99 at ${perSecond} jobs/s (shorter is better)`,
    bars: all
      .filter(({ p99Ms }) => p99Ms.length > 0)
      .map((each) => ({
        label: each.contender.name.replace(", single", ""),
        value: median(each.p99Ms),
        isMarked: isOurs(each),
      })),
  };
  return barChart([speeds, waits]);
}
