import { driveSplits, type Goal, isOver } from "./drive-splits.ts";
import { KILL_POINTS, type KillPoint, OPEN_KILL_POINTS } from "./kill-points.ts";
import type { LoadSaid } from "./live-load.ts";
import { LiveSite, type LiveSplit } from "./live-site.ts";

/** Who is killed when all splits have come to their points. */
export type Victim = "the worker" | "the server" | "both";

/** What was left when every split had come to its end after the kill. */
export type KillReport = {
  splits: { point: KillPoint; goal: Goal; split: LiveSplit; isReached: boolean }[];
  said: LoadSaid;
  mismatches: string[];
  /** Tenants with rows on a shard that does not own them. */
  leftovers: string[];
  complaints: string[];
  cutovers: { split_id: string; direction: string }[];
  versions: number[];
};

export type KillOptions = {
  victim: Victim;
  points?: readonly KillPoint[];
  /** Which of the points are taken back after the kill instead of ahead, as far as that is possible. */
  goesBack: (at: number) => boolean;
  databases?: readonly [string, string];
};

/** A worker runs so many steps on shards at once; one that stands still takes a place. */
const STEPS_OF_WORKER = 16;

/**
 * Brings one split to each point, kills somebody, starts them again, and leads the splits to their
 * ends. Tenants are written to all the while.
 */
export async function runKillRound(options: KillOptions): Promise<KillReport> {
  const { victim, points = KILL_POINTS, goesBack, databases } = options;
  const tenants = points.map((_, at) => `t${at}`);
  const site = await LiveSite.start({
    tenants: [...tenants, "bystander"],
    accounts: 4,
    entries: 250,
    ...(databases === undefined ? {} : { databases }),
  });
  try {
    // Fences are held for long here, and each write that waits for one looks at it every few milliseconds.
    const load = await site.startLoad({ writesPerSecond: 120, underWayMax: 2 });
    const ways = new Map<string, Goal>();
    const places = points.map((point, at) => ({ tenant: tenants[at] ?? "", point }));
    const { workers, reached } = await standAtPoints(site, places, ways);

    const workersEnd = victim === "the server" ? null : site.killWorkers();
    const serverEnds = victim === "the worker" ? null : site.killServer();
    await Promise.all([workersEnd, serverEnds]);
    // Workers that outlive the server go on while it is away.
    for (const worker of workers) worker.tell({ points: [], goOn: true });
    if (victim !== "the worker") await site.startServer();
    if (victim !== "the server") for (const _ of workers) site.startWorker();

    const goals = goalsAfter(points, [...ways.keys()], goesBack);
    const ended = await driveSplits(site, goals, (splits) => splits.every(isOver));
    const { said, mismatches } = await site.settle(load, (tenant) => site.ownerOf(tenant));
    return {
      splits: points.flatMap((point, at) => {
        const split = ended.find((each) => each.tenants[0] === tenants[at]);
        if (split === undefined) return [];
        const goal = goals.get(split.split_id) ?? "ahead";
        return [{ point, split, goal, isReached: reached.has(tenants[at] ?? "") }];
      }),
      said,
      mismatches,
      leftovers: await leftoversOf(site, tenants),
      complaints: site.complaints(),
      cutovers: await site.events("SplitCutOver"),
      versions: (await site.events("RoutingChanged")).map(({ version }) => version),
    };
  } catch (error) {
    throw new Error(`${String(error)}\n${site.output()}`, { cause: error });
  } finally {
    await site.close();
  }
}

/** Plans the splits and leads them on until each stands still at its point. */
async function standAtPoints(
  site: LiveSite,
  places: readonly { tenant: string; point: KillPoint }[],
  ways: Map<string, Goal>,
): Promise<{ workers: ReturnType<LiveSite["startKillingWorker"]>[]; reached: Set<string> }> {
  const count = Math.ceil(places.length / STEPS_OF_WORKER);
  const workers = Array.from({ length: count }, () => site.startKillingWorker(places));
  const reached = new Set<string>();
  for (const worker of workers) {
    const listen = async (): Promise<void> => {
      for (;;) reached.add((await worker.heard("reached")).tenant);
    };
    listen().catch(() => undefined);
  }
  for (const { tenant, point } of places) {
    ways.set(await site.plan([tenant], { fence_hold_ms: 60_000 }), point.path);
  }
  // A worker that gets no time from the machine loses its lease, and a point may be passed by.
  const isThere = (split: LiveSplit): boolean => reached.has(split.tenants[0] ?? "");
  const splits = await driveSplits(
    site,
    ways,
    (all) => all.length === places.length && all.every((split) => isThere(split) || isOver(split)),
  );
  // So it may after it was reached: another worker goes on from there, and then there is no way back.
  const open = new Set(places.flatMap((each) => (isOpen(each.point) ? [each.tenant] : [])));
  for (const { phase, wanted, tenants } of splits) {
    const [tenant = ""] = tenants;
    if (open.has(tenant) && (phase === "completed" || wanted === "complete"))
      reached.delete(tenant);
  }
  return { workers, reached };
}

function isOpen(point: KillPoint): boolean {
  return OPEN_KILL_POINTS.includes(point);
}

function goalsAfter(
  points: readonly KillPoint[],
  splits: readonly string[],
  goesBack: (at: number) => boolean,
): Map<string, Goal> {
  return new Map(
    splits.map((split, at) => {
      const point = points[at];
      if (point === undefined || !isOpen(point)) {
        return [split, point?.path ?? "ahead"];
      }
      return [split, goesBack(at) ? "back now" : "ahead"];
    }),
  );
}

async function leftoversOf(site: LiveSite, tenants: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const tenant of tenants) {
    const other = (await site.ownerOf(tenant)) === "east" ? "west" : "east";
    const { accounts, entries } = await site.tables[other].rowsOf(tenant);
    if (accounts.length + entries.length > 0) found.push(`${tenant} on ${other}`);
  }
  return found;
}
