import { SensorSpec } from "../../src/work/definition/spec.ts";
import type { EvaluatedRequest } from "../../src/work/probe-protocol.ts";
import type { Random } from "./random.ts";

/** One sensor of each kind; the names of those whose code the simulated workers have come first. */
export const CODE_SENSORS = ["items", "pushed"] as const;
export const PUSH_SENSORS = ["pushed", "forwarded"] as const;
export const SENSORS = [...CODE_SENSORS, "forwarded", "made"] as const;

/** The sensors as published once; what may vary is drawn anew for every publish. */
export function drawSensors(random: Random): SensorSpec[] {
  const sensor = (name: string, rest: object): SensorSpec =>
    SensorSpec.parse({
      kind: "sensor",
      name,
      enabled: random.chance(0.9),
      min_interval_ms: random.pick([1_000, 5_000]),
      timeout_ms: random.pick([1_000, 2_000]),
      max_run_requests: random.pick([3, 100]),
      ...rest,
    });
  return [
    // Its function looks at a list that grows.
    sensor("items", { mode: "poll" }),
    // Its function is given each message.
    sensor("pushed", { mode: "push" }),
    // Needs no function: the server itself asks for a run.
    sensor("forwarded", {
      mode: "push",
      target: { asset_selection: ["lone"], config: { n: "{payload.n}" } },
    }),
    // Watches what the others make.
    sensor("made", {
      mode: "poll",
      watch: { type: "materializations", asset_key: "lone" },
      target: { asset_selection: ["lone/next"] },
    }),
  ];
}

const LETTERS = ["a", "b", "c d", "e,f"];

/** The run that item `n` of the list asks for; one that is wrong asks for a partition that is none. */
export function wishOfItem(n: number, isWrong: boolean): EvaluatedRequest {
  const partition = isWrong ? "no such key" : (LETTERS[n % LETTERS.length] ?? "");
  return {
    asset_selection: ["top"],
    partition_keys: [partition],
    run_key: `item-${n}`,
    config: { n },
    labels: {},
  };
}

/** Items that are wrong until somebody corrects them. */
export function mayBeWrong(n: number): boolean {
  return n % 7 === 0;
}

/** The runs that the function of `pushed` asks for: none, one or two. */
export function wishesOfMessage(n: number): EvaluatedRequest[] {
  return Array.from({ length: n % 3 }, (_, index) => ({
    asset_selection: ["lone"],
    partition_keys: null,
    run_key: null,
    config: { n, index },
    labels: {},
  }));
}

/** Messages that no evaluation can make anything of. */
export function isPoisonMessage(n: number): boolean {
  return n % 5 === 4;
}

/** How many runs come of a message. */
export function runsOfMessage(sensor: string, n: number): number {
  if (sensor === "forwarded") return 1;
  return isPoisonMessage(n) ? 0 : wishesOfMessage(n).length;
}
