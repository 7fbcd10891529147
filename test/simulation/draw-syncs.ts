import { Spec } from "../../src/work/definition/published-spec.ts";
import type { SyncTarget } from "../../src/work/sync/spec.ts";
import type { Random } from "./random.ts";

/** Names of chains, which are the sources of all syncs. */
export const CHAINS = ["alpha", "beta"] as const;

/** The syncs that code defines: one in many pieces, one in pages, one with an end. */
export const SYNCS = ["logs", "pages", "fixed"] as const;
export type SyncName = (typeof SYNCS)[number];

/** Targets that code or somebody else may name. */
export const TARGETS: readonly SyncTarget[] = [
  { network: "alpha", wallet: "0x1" },
  { network: "alpha", wallet: "0x2" },
  { network: "beta", wallet: "0x1" },
  { network: "beta", wallet: "a,b=c" },
];

/** What is known about the chains when syncs are drawn. */
export type SyncDrawing = {
  /** A block that every chain has and keeps. */
  fixedTo: number;
  /** The most blocks that may stand between a head and what is synced. */
  finalityMax: number;
};

/** The project's syncs as published once; what may vary is drawn anew for every publish. */
export function drawSyncs(random: Random, { fixedTo, finalityMax }: SyncDrawing): Spec[] {
  const sync = (name: SyncName, rest: object): Spec =>
    Spec.parse({
      kind: "sync",
      name,
      source: "{network}",
      // Some stay, so that they get somewhere; others come and go.
      targets: TARGETS.filter((_, index) =>
        random.chance(index === SYNCS.indexOf(name) ? 0.95 : 0.15),
      ),
      from: 0,
      segments: { max: random.pick([1, 3, 8, 20]), min_size: random.pick([1, 5, 20]) },
      order: random.pick(["oldest_first", "newest_first"]),
      max_parallel: random.integer(1, 4),
      finality: random.pick([0, 2, Math.min(12, finalityMax)]),
      head_every_ms: random.pick([500, 1_000, 3_000]),
      request_size: random.pick([null, 7, 25]),
      requests_per_second: random.pick([null, null, 20]),
      pool: random.chance(0.2) ? "narrow" : null,
      priority: random.integer(-1, 1),
      retry: {
        max_attempts: random.chance(0.1) ? 2 : null,
        delay_ms: random.pick([0, 100, 1_000]),
        factor: 2,
        max_delay_ms: 5_000,
        jitter: 0.2,
      },
      timeout_ms: random.pick([20_000, 3_600_000]),
      stall_after_ms: random.pick([8_000, 15_000]),
      quarantine_after: random.integer(1, 3),
      ...rest,
    });
  const all = [
    sync("logs", { has: { head: true, hash: true, verify: true } }),
    sync("pages", { splittable: false, has: { head: true, hash: true, verify: false } }),
    sync("fixed", {
      to: random.chance(0.8) ? fixedTo : Math.floor(fixedTo / 2),
      finality: 0,
      has: { head: random.chance(0.5), hash: random.chance(0.5), verify: true },
    }),
  ];
  const gone = random.chance(0.05) ? random.pick(SYNCS) : null;
  return all.filter((spec) => !(spec.kind === "sync" && spec.name === gone));
}
