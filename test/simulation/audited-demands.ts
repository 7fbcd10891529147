import type { PartitionDefinition } from "../../src/kernel/keyspace/definition.ts";
import { pairOf } from "./audited-pair.ts";
import type { AuditedProject } from "./audited-project.ts";
import type { AuditedRun, AuditedTask } from "./audited-run.ts";

/** By what code a pair was made, and whether a check holds it back. */
export type Made = { code: string | null; isBlocked: boolean };

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
    return spec.upstream.flatMap(({ asset_key, mapping }) => {
      const above = this.#project.assets.get(asset_key);
      if (above === undefined) return [];
      const there = keysIn(above.partitions);
      const needed = task.keys
        .filter((key) => keysIn(spec.partitions).includes(key))
        .flatMap((key) => {
          if (mapping.type === "identity") return there.filter((other) => other === key);
          if (mapping.type === "offset") return there[there.indexOf(key) + mapping.by] ?? [];
          return there.filter((other) => other.startsWith(key));
        });
      return needed
        .map((key) => pairOf(asset_key, key))
        .filter((pair) => {
          if ((statusOf(pair)?.materialRun ?? null) === null) return true;
          const { code = null, isBlocked = false } = this.madeBy.get(pair) ?? {};
          const isOld = code !== null && above.code_version !== null && code !== above.code_version;
          return isBlocked || (demand === "fresh" && isOld);
        });
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
