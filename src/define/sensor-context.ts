import type { Json } from "../core/canonical.ts";
import type { SensorMessage } from "../core/probe-protocol.ts";
import type { AssetReference } from "./asset.ts";
import type { AbortSignalLike } from "./task-context.ts";

/** A run that a sensor asks for. */
export type SensorRequest = {
  assets: AssetReference | readonly AssetReference[];
  /** The partition to be made, where the assets have partitions; or several as `partitions`. */
  partition?: string;
  partitions?: readonly string[];
  /** Two requests of the sensor with the same key are one run. */
  runKey?: string;
  config?: Json;
  labels?: Readonly<Record<string, string>>;
};

/** What a sensor's function is told and what it can say. */
export interface SensorContext<Item = never> {
  readonly sensor: string;
  /** How far the sensor got; null at the start, and for one that is pushed to. */
  readonly cursor: string | null;
  /** What the watch found, oldest first; empty without a watch. */
  readonly items: readonly Item[];
  /** What was pushed, or a sample that somebody evaluates by hand; else null. */
  readonly message: SensorMessage | null;
  /** Aborted when the evaluation has taken too long or the worker stops. */
  readonly signal: AbortSignalLike;
  /** Asks for a run; it is made when the function has ended well, and only then. */
  readonly request: (request: SensorRequest) => void;
  /** Says where the next evaluation starts; one with a watch moves on by itself. */
  readonly setCursor: (cursor: string) => void;
  readonly log: (message: string, fields?: Readonly<Record<string, Json>>) => void;
}

/** What a sensor's function may return: where the next evaluation starts. */
export type SensorResult = { cursor?: string | null };

/** The function of a sensor. */
export type Evaluate<Item = never> = (
  context: SensorContext<Item>,
) => Promise<SensorResult | void> | SensorResult | void;
