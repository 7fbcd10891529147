import process from "node:process";
import type { Address } from "viem";
import type { SyncOptions } from "../../../src/define/sync.ts";

/** What a test says about the sync that its processes run. */
export type SyncSettings = {
  /** The file that transfers are stored in. */
  file: string;
  token: Address;
  /** The address of each network's node. */
  nodes: Readonly<Record<string, string>>;
  /** Whether segments are verified after their last request. */
  verify: boolean;
  requestTimeoutMs: number;
  options: Omit<Partial<SyncOptions>, "fetch" | "head" | "hash" | "verify" | "targets">;
};

/** The variable that carries the settings to the processes of a test. */
export const SYNC_SETTINGS = "SYNC_SETTINGS";

/** The settings of this process. */
export function settingsOfProcess(): SyncSettings {
  return JSON.parse(process.env[SYNC_SETTINGS] ?? "null") as SyncSettings;
}
