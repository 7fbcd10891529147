import type { PartitionDefinition } from "../../src/kernel/keyspace/definition.ts";
import type { AssetSpec } from "../../src/work/definition/spec.ts";
import { pairOf } from "./audited-pair.ts";
import type { AuditedProject } from "./audited-project.ts";
import type { AuditedRun, AuditedTask } from "./audited-run.ts";

/** By what code a pair was made, from when to when, and whether a check holds it back. */
export type Made = { code: string | null; isBlocked: boolean; startPos: number; pos: number };

type Known = { materialRun: string | null } | undefined;

/** What assets require of their upstream, spelt out pair by pair for the mappings of the simulated project. */
export class AuditedDemands {
  /** The last time that each pair was made. */
  readonly madeBy = new Map<string, Made>();
  readonly #project: AuditedProject;

  constructor(project: AuditedProject) {
    this.#project = project;
  }

  /** Whether the task's asset required something when its run was asked for. */
  isDemanding(run: AuditedRun, task: AuditedTask): boolean {
    if (run.isSegment) return false;
    const spec = this.#project.specs.get(run.data.tasks[task.assetIndex]?.spec_hash ?? "");
    return spec?.kind === "asset" && spec.requires !== undefined;
  }

  /** The pairs that a task's asset requires now and that are not there. */
  lackOf(task: AuditedTask, statusOf: (pair: string) => Known): string[] {
    const spec = this.#project.assets.get(task.assetKey);
    if (spec?.requires === undefined) return [];
    const { upstream: demand } = spec.requires;
    return task.keys
      .flatMap((key) => this.#madeFrom(spec, key))
      .filter(({ pair, asset, key }) => {
        if ((statusOf(pair)?.materialRun ?? null) === null) return true;
        const made = this.madeBy.get(pair);
        if (made === undefined || made.isBlocked) return true;
        if (demand === "materialized") return false;
        const { code_version: code } = asset;
        if (made.code !== null && code !== null && made.code !== code) return true;
        return this.#madeFrom(asset, key).some((above) => {
          return (this.madeBy.get(above.pair)?.pos ?? 0) > made.startPos;
        });
      })
      .map(({ pair }) => pair);
  }

  #madeFrom(spec: AssetSpec, key: string): { pair: string; asset: AssetSpec; key: string }[] {
    if (!keysIn(spec.partitions).includes(key)) return [];
    return spec.upstream.flatMap(({ asset_key, mapping }) => {
      const asset = this.#project.assets.get(asset_key);
      if (asset === undefined) return [];
      const there = keysIn(asset.partitions);
      const own = there.filter((other, at) => {
        if (mapping.type === "identity") return other === key;
        if (mapping.type === "offset") return there[at - mapping.by] === key;
        return other.startsWith(key);
      });
      return own.map((other) => ({ pair: pairOf(asset_key, other), asset, key: other }));
    });
  }
}

/** The keys of static partitions, and of days that are over. */
function keysIn(partitions: PartitionDefinition | null): readonly string[] {
  if (partitions?.type === "static") return partitions.keys;
  if (partitions?.type === "monthly") return ["2026-01", "2026-02", "2026-03"];
  if (partitions?.type !== "daily") return [""];
  const days: string[] = [];
  const end = Date.parse(partitions.end ?? "2026-03-01");
  for (let at = Date.parse(partitions.start); at < end; at += 86_400_000) {
    days.push(new Date(at).toISOString().slice(0, 10));
  }
  return days;
}
