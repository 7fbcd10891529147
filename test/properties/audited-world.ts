import { expect } from "vitest";
import { EVENTS, type NewEvent } from "../../src/work/events.ts";
import type { Audited } from "../simulation/audit-ledger.ts";
import { SplitAudit } from "../simulation/audit-splits.ts";
import { Violations } from "../simulation/violations.ts";
import { changeRouting } from "../../src/work/routing/commands.ts";
import { LedgerWorld } from "./ledger-world.ts";
import { type HeldStep, shardsSpec } from "./split-world.ts";

/** A ledger of splits, every event of which is held against what the auditor understands. */
export class AuditedWorld extends LedgerWorld {
  readonly violations = new Violations();
  /** Steps that workers hold, or think they do. */
  readonly held: HeldStep[] = [];
  readonly #audit = new SplitAudit(this.violations);

  constructor() {
    super();
    this.publish(shardsSpec());
    this.submit(changeRouting({ default_shard: "a", routes: [{ tenant: "t0", shard: "b" }] }));
  }

  override record(events: readonly NewEvent[]): void {
    const before = this.pos;
    super.record(events);
    for (const { type, data, pos } of this.events.slice(before)) {
      expect(EVENTS[type].safeParse(data).error).toBeUndefined();
      const audited = { type, data, pos, occurred_at: this.now } as Audited;
      this.#audit.expectNext(audited);
      this.#audit.see(audited);
    }
    this.#compare();
  }

  /** The rows say what the auditor understood. */
  #compare(): void {
    const splits = this.splits();
    for (const split of splits) {
      expect(split).toMatchObject(this.#audit.byId.get(split.split_id)?.expectedRow() ?? {});
    }
    const isActive = new Set(
      splits.flatMap(({ split_id, finished_at }) => (finished_at === null ? [split_id] : [])),
    );
    const tenants = this.read((rows) => rows.splitTenants.find([], [{ cell: "tenant" }], 1_000));
    expect(tenants.every(({ split_id }) => isActive.has(split_id))).toBe(true);
    for (const [tenant, { shard, epoch }] of this.#audit.routes) {
      const row = this.read((rows) => rows.routes.get(tenant));
      expect({ tenant, shard: row?.shard, epoch: row?.epoch }).toEqual({ tenant, shard, epoch });
    }
  }
}
