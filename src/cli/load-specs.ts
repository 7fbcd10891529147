import { existsSync } from "node:fs";
import type { Client } from "../client/client.ts";
import type { AnswerOf } from "../core/api/operations.ts";
import { shardWorkNames } from "../core/shard-spec.ts";
import { workNameOf } from "../core/sync-spec.ts";
import { forkWorker, type LoadedSpecs } from "../worker/fork-worker.ts";
import type { WorkerLogger } from "../worker/worker-logger.ts";
import type { Project } from "./project.ts";

/** Loads a project's definitions in a process of their own, which ends again. */
export async function loadSpecs(project: Project, logger: WorkerLogger): Promise<LoadedSpecs> {
  const worker = await forkWorker({ configPath: project.configPath, logger });
  await worker.stop();
  return worker.loaded;
}

/** Whether the project has a file with definitions at all. */
export function hasDefinitions(project: Project): boolean {
  return existsSync(project.configPath);
}

/** Publishes a project's definitions; what it no longer has is removed. */
export function publish(
  client: Client,
  { specs }: LoadedSpecs,
): Promise<AnswerOf<"publishDefinitions">> {
  const body = { origin: "code" as const, specs: [...specs], prune: true };
  return client.call("publishDefinitions", { body });
}

/** The names of what workers do of some specs: keys of assets, work names of syncs and of shards. */
export function workNamesIn(specs: LoadedSpecs["specs"]): string[] {
  return specs.flatMap((spec) => {
    if (spec.kind === "sync") return [workNameOf(spec.name)];
    if (spec.kind === "shards") return shardWorkNames(spec.shards.map(({ shard }) => shard));
    return spec.kind === "asset" ? [spec.asset_key] : [];
  });
}
