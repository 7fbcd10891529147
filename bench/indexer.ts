import type { BenchChain } from "./bench-chain.ts";

/** Where an indexer runs, what it reads and where it stores. */
export type IndexingSetup = {
  /** Its own; the same one to go on after a kill. */
  readonly folder: string;
  /** The node, or a proxy before it. */
  readonly nodeUrl: string;
  readonly chain: BenchChain;
  /** An own database; the same one to go on after a kill. */
  readonly databaseUrl: string;
};

/** Something that copies the transfers of a chain into a table. */
export type Indexer = {
  /** Whether all that was asked for is stored. */
  isReady(): Promise<boolean>;
  /** How much of it is done, from 0 to 1. */
  share(): Promise<number>;
  /** How many ranges it works on at the moment; null where nobody can tell. */
  running(): Promise<number | null>;
  /** Ends all of it as `kill -9` does; resolves when it is gone. */
  kill(): Promise<void>;
};
