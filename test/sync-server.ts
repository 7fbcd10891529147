import { TABLES } from "../src/work/tables.ts";
import type { SegmentRow, SyncRow } from "../src/work/sync/rows.ts";
import type { ClaimedHead, HeadOutcome } from "../src/work/probe-protocol.ts";
import { workNameOf } from "../src/work/sync/spec.ts";
import type { ReportedResult } from "../src/work/run/protocol.ts";
import type { Engine } from "../src/engine/engine.ts";
import { SensorServer } from "./sensor-server.ts";

/** A sync's spec, written with what matters only. */
export function syncSpec(given: Record<string, unknown> = {}): object {
  return {
    kind: "sync",
    name: "s",
    source: "node",
    from: 0,
    targets: [{ wallet: "a" }],
    segments: { max: 4, min_size: 10 },
    has: { head: true, hash: false, verify: false },
    ...given,
  };
}

/** A look that found the head there. */
export function seen(
  head: number,
  given: Partial<Extract<HeadOutcome, { type: "seen" }>> = {},
): HeadOutcome {
  return { type: "seen", head, safe: null, fork: null, ...given };
}

/** An engine on a real store that keeps syncs, under a clock that only moves when a test says so. */
export class SyncServer {
  readonly base: SensorServer;
  /** The hashes that workers of this server see. */
  hashOf: (block: number) => string | null = () => null;
  #leases = 0;

  private constructor(base: SensorServer) {
    this.base = base;
  }

  static async start(options: { isIdle?: boolean } = {}): Promise<SyncServer> {
    return new SyncServer(await SensorServer.start(options));
  }

  get engine(): Engine {
    return this.base.engine;
  }

  async heads(syncs: readonly string[] = ["s"], slots = 100): Promise<ClaimedHead[]> {
    const request = { worker_id: "w", syncs: [...syncs], slots, wait_ms: 0 };
    return (await this.engine.claimHeads(request)).heads;
  }

  /** Takes the one head that is due. */
  async head(sync = "s"): Promise<ClaimedHead> {
    const [head, ...others] = await this.heads([sync]);
    if (head === undefined || others.length > 0) {
      throw new Error(`${others.length + (head === undefined ? 0 : 1)} heads are due.`);
    }
    return head;
  }

  async see(head: ClaimedHead, outcome: HeadOutcome): Promise<string> {
    const { probe_id, attempt, sync, source } = head;
    const results = [{ probe_id, attempt, sync, source, outcome }];
    const answer = await this.engine.reportHeads({ worker_id: "w", results });
    await this.base.quiet();
    return answer.results[0] ?? "nothing";
  }

  /** Claims the segments that are ready, and reports each as stored to its end after `meanwhile`. */
  async work(sync = "s", slots = 100, meanwhile?: () => Promise<void>): Promise<number> {
    this.#leases += 1;
    const lease_id = `lease ${this.#leases}`;
    const claiming = this.engine.claim({
      worker_id: "w",
      lease_id,
      assets: [workNameOf(sync)],
      slots,
      code_version: null,
      wait_ms: 0,
    });
    // A claim that finds nothing ends with its time.
    await this.base.pass(0);
    const { groups } = await claiming;
    const results = groups.flatMap((group) =>
      group.tasks.map(({ task_key, attempt }): ReportedResult => {
        const to = group.segment?.to_block ?? 0;
        const segment = { last_processed_block: to, end_hash: this.hashOf(to), rows: 1, blocks: 1 };
        const nothing = { work_ms: 1, requests: 1, quarantined: [], verification: null };
        return {
          run_pos: group.run_pos,
          task_key,
          attempt,
          outcome: "SUCCEEDED",
          segment: { ...segment, ...nothing },
        };
      }),
    );
    if (results.length === 0) return 0;
    await meanwhile?.();
    const request = { worker_id: "w", code_version: null, results, released_leases: [lease_id] };
    const answer = await this.engine.report(request);
    await this.base.quiet();
    return answer.results.filter((verdict) => verdict === "recorded").length;
  }

  /** Works until nothing is ready. */
  async workAll(sync = "s"): Promise<void> {
    while ((await this.work(sync)) > 0);
  }

  async syncs(): Promise<SyncRow[]> {
    const find = { table: TABLES.syncs, where: [], order: [{ cell: "sync_id" }], limit: 100_000 };
    return this.engine.read((reader) => reader.find(find));
  }

  async sync(): Promise<SyncRow> {
    const [sync] = await this.syncs();
    if (sync === undefined) throw new Error("There is no sync.");
    return sync;
  }

  async segments(): Promise<SegmentRow[]> {
    const order = [{ cell: "sync_id" }, { cell: "from_block" }];
    const find = { table: TABLES.segments, where: [], order, limit: 100_000 };
    return this.engine.read((reader) => reader.find(find));
  }
}
