import type { Decide } from "../../work/decision.ts";
import { recordHead } from "../../work/sync/head.ts";
import { type Actor, holderOf, type RecordedEvent } from "../../work/envelope.ts";
import type {
  HeadClaimAnswer,
  HeadClaimRequest,
  HeadReportAnswer,
  HeadReportRequest,
  SourceExchange,
  SourceExchangeAnswer,
} from "../../work/sync/source-protocol.ts";
import type { LearntSource, Store, WorkspaceId } from "../../store/store.ts";
import { type Cause, ENGINE_CAUSE } from "../commit.ts";
import type { Environment } from "../config.ts";
import { HeadDesk, type HeadStatus } from "./head-desk.ts";
import { type AuditCounts, SyncAudit, pauseFaulty } from "./sync-audit.ts";

/** How long after its last word a worker counts as one that uses a source. */
const USED_WITHIN_MS = 30_000;

/** How decisions about syncs are made: recorded, or only reckoned. The engine hands it in. */
export type SyncDeciding = {
  record<Result>(decide: Decide<Result>, cause: Cause): Promise<Result>;
  reckon<Result>(decide: Decide<Result>): Promise<Result>;
  /** How long a look is a worker's without a heartbeat. */
  leaseMs: number;
};

/** What syncs need besides their controller: heads, what is learnt about sources, and audits. */
export class SyncDesk {
  readonly #store: Store;
  readonly #ws: WorkspaceId;
  readonly #heads: HeadDesk;
  readonly #audit: SyncAudit;

  constructor(store: Store, ws: WorkspaceId, environment: Environment, deciding: SyncDeciding) {
    this.#store = store;
    this.#ws = ws;
    this.#heads = new HeadDesk(store, ws, environment, {
      record: (seen, cause) => deciding.record(recordHead(seen), cause),
      reckon: (seen) => deciding.reckon(recordHead(seen)),
      leaseMs: deciding.leaseMs,
    });
    this.#audit = new SyncAudit(store, ws, environment, (syncId) =>
      deciding.record(pauseFaulty(syncId), ENGINE_CAUSE),
    );
  }

  start(): void {
    this.#heads.start();
    this.#audit.start();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#heads.stop(), this.#audit.stop()]);
  }

  /** Hears what this server committed. */
  committed(events: readonly RecordedEvent[]): void {
    this.#heads.committed(events);
  }

  /** Brings the looks at heads in step with the rows. */
  tick(): Promise<void> {
    return this.#heads.tick();
  }

  claimHeads(
    request: HeadClaimRequest,
    signal: AbortSignal | undefined,
    actor: Actor,
  ): Promise<HeadClaimAnswer> {
    return this.#heads.claim(request, signal, actor);
  }

  reportHeads(request: HeadReportRequest, actor: Actor): Promise<HeadReportAnswer> {
    return this.#heads.report(request, actor);
  }

  headStatus(): Promise<HeadStatus[]> {
    return this.#heads.status();
  }

  async exchangeSources(
    { worker_id, sources }: SourceExchange,
    actor: Actor,
  ): Promise<SourceExchangeAnswer> {
    // Workers make up their names: nobody speaks for the worker of another token.
    const user = `${holderOf(actor)}/${worker_id}`;
    const known = await this.#store.exchangeSources(this.#ws, user, sources, USED_WITHIN_MS);
    return { sources: known };
  }

  learntSources(): Promise<LearntSource[]> {
    return this.#store.learntSources(this.#ws, USED_WITHIN_MS);
  }

  /** What came of audits, since the server started. */
  audits(): AuditCounts {
    return { ...this.#audit.counts };
  }
}
