import { afterEach, beforeEach, describe } from "vitest";
import type { Shard } from "../../../src/shards/shard.ts";
import { applyCases } from "./apply-cases.ts";
import { captureCases } from "./capture-cases.ts";
import { copyCases } from "./copy-cases.ts";
import { ddlCases } from "./ddl-cases.ts";
import { digestCases } from "./digest-cases.ts";
import { enterCases } from "./enter-cases.ts";
import { fenceCases } from "./fence-cases.ts";
import { planCases } from "./plan-cases.ts";
import { readCases } from "./read-cases.ts";
import { removalCases } from "./removal-cases.ts";
import { schemaCases } from "./schema-cases.ts";
import { stepCases } from "./step-cases.ts";
import { tenantCases } from "./tenant-cases.ts";
import { valueCases } from "./value-cases.ts";

/** The two shards of a pair. */
export type Side = "source" | "target";

/** A transaction of the application, on a connection of its own. */
export type OpenTransaction = {
  sql: (text: string) => Promise<void>;
  commit: () => Promise<void>;
  rollback: () => Promise<void>;
};

/** Where engines differ, as data. Everything else the cases write is SQL that all of them read. */
export type Dialect = {
  /** A table `kinds` with a column of every kind beside `id integer` (its key) and `tenant text`, and values for it. */
  readonly kinds: {
    readonly ddl: string;
    /** Lists of literals for all columns after `id` and `tenant`, in order. */
    readonly values: readonly string[];
  };
  /** Tables with keys that are not plain integers, each with `tenant`; one insert a row. */
  readonly keyed: readonly {
    readonly table: string;
    readonly ddl: string;
    readonly inserts: readonly string[];
  }[];
  /** A table `serials (id, tenant text, note text)` whose `id` the database gives out. */
  readonly serials: string;
  /** A table `keyless (tenant text)` that has no primary key. */
  readonly keyless: string;
  /** Tables `(id integer key, tenant)` with two values of `tenant` that are equal in different texts. */
  readonly loose: readonly (Made & {
    readonly type: string;
    readonly one: string;
    readonly other: string;
  })[];
  /** The same, where equal values have equal texts: a tenant, and texts for which there is none. */
  readonly exact: readonly (Made & {
    readonly tenant: string;
    readonly others: readonly string[];
  })[];
  /** Tables `(id text key, tenant)` whose texts are ordered in their own way. */
  readonly ordered: readonly Made[];
  /** Tables `(tenant text, k key, note text)` with two values of `k` that are equal in different texts. */
  readonly respelled: readonly (Made & { readonly one: string; readonly other: string })[];
  /** A table of which no change can be captured, and what is said of it. */
  readonly uncapturable: Made & { readonly reason: RegExp };
};

/** A table and the statements that make it. */
export type Made = {
  readonly table: string;
  readonly ddl: readonly string[];
};

/** A fresh pair of empty shards of one engine, and an application beside Pawl. */
export type ShardPair = {
  readonly source: Shard;
  readonly target: Shard;
  readonly dialect: Dialect;
  /** Runs plain SQL without entering, and gives its rows. Integers come as numbers. */
  readonly sql: (side: Side, text: string) => Promise<unknown[][]>;
  /** Every row of a table as an exact text, in a fixed order. */
  readonly dump: (side: Side, table: string) => Promise<string[]>;
  /** Enters for a tenant, runs the statements and commits; a refusal is thrown as `PawlError`. */
  readonly write: (side: Side, tenant: string, epoch: number, ...sql: string[]) => Promise<void>;
  /** Enters for reading and gives the rows of one statement. */
  readonly read: (side: Side, tenant: string, epoch: number, sql: string) => Promise<unknown[][]>;
  /** Begins a transaction that writes; it has entered when a tenant is given. */
  readonly begin: (
    side: Side,
    entered: { readonly tenant: string; readonly epoch: number } | null,
  ) => Promise<OpenTransaction>;
  /** Opens another `Shard` on the same data. The caller closes it. */
  readonly open: (side: Side) => Promise<Shard>;
  readonly close: () => Promise<void>;
};

const CASES: Record<string, (pair: () => ShardPair) => void> = {
  schema: schemaCases,
  tenants: tenantCases,
  values: valueCases,
  plans: planCases,
  capture: captureCases,
  reading: readCases,
  applying: applyCases,
  copying: copyCases,
  digests: digestCases,
  fences: fenceCases,
  entering: enterCases,
  steps: stepCases,
  removals: removalCases,
  ddl: ddlCases,
};

/** What every `Shard` does. Each driver's test file is a call to this. */
export function shardConformance(name: string, open: () => Promise<ShardPair>): void {
  describe(`${name} shard`, () => {
    let pair: ShardPair;
    beforeEach(async () => {
      pair = await open();
    });
    afterEach(() => pair.close());

    describe.each(Object.entries(CASES))("%s", (_topic, cases) => {
      cases(() => pair);
    });
  });
}
