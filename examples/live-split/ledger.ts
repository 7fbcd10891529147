import type { ShardName } from "./places.ts";

/** What an account has to add up to. */
export type Sums = { counted: number; entries: number };

/**
 * The application: accounts that count their entries. Every write goes through the router, so that it
 * finds its tenant wherever that is, and never writes where the tenant is no longer.
 */
export interface Ledger {
  /** Makes the tables on both shards, and all tenants on the first. */
  prepare(): Promise<void>;
  /** Adds 1 to an account and an entry with that number, in one transaction. */
  addEntry(tenant: string, account: number): Promise<void>;
  /** The shard of a tenant, and since which version of the routing it is there. */
  routeOf(tenant: string): Promise<{ shard: string; epoch: number }>;
  /** The sums of each tenant that has rows on a shard, past the router. */
  sumsOn(shard: ShardName): Promise<ReadonlyMap<string, Sums>>;
  close(): Promise<void>;
}
