import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";

/** One thing that an attempt did, in the order in which the attempts of all workers did them. */
export type Deed = {
  did: "started" | "failed" | "made" | "checkpointed";
  asset: string;
  run_id: string;
  attempt: number;
  partition: string;
  /** What `lastCheckpoint` said, or what was saved and acknowledged. */
  checkpoint: unknown;
  pid: number;
};

const { FAULTS_DIR: folder = "" } = process.env;

/** The file in which every attempt says what it did. */
export function deedsFile(directory: string): string {
  return join(directory, "deeds.jsonl");
}

/** The file that a partition of an asset is. */
export function partitionFile(directory: string, asset: string, partition: string): string {
  return join(directory, "made", asset, partition);
}

/** Writes down what an attempt did; lines of several processes do not mix. */
export function note(deed: Omit<Deed, "pid">): void {
  appendFileSync(deedsFile(folder), `${JSON.stringify({ ...deed, pid: process.pid })}\n`);
}

/** Makes a partition: the same file with the same text however often it is made. */
export function make(asset: string, partition: string, text: string): void {
  const path = partitionFile(folder, asset, partition);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.${process.pid}`, text);
  renameSync(`${path}.${process.pid}`, path);
}

/** The text of a partition; throws when it is not made. */
export function made(asset: string, partition: string): string {
  return readFileSync(partitionFile(folder, asset, partition), "utf8");
}

/** Whether something happens for the first time, in all processes and for ever. */
export function isFirst(name: string): boolean {
  const path = join(folder, "seen", name);
  if (existsSync(path)) return false;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "");
  return true;
}
