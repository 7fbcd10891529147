import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { PawlError } from "../core/errors.ts";
import type { Project } from "../define/define-pawl.ts";
import { configFailure } from "./config-failure.ts";
import { resolveOwnPackage } from "./own-package.ts";

/** The names under which a configuration may export its project. */
const EXPORT_NAMES = ["default", "project", "pawl"] as const;

/**
 * Loads a project's code from its `pawl.config.ts`, without a build. Throws `CONFIG_INVALID` or
 * `DEFINITION_INVALID` with one sentence: which file, the line where known, and what to do.
 */
export async function loadProject(path: string): Promise<Project> {
  const file = resolve(path);
  if (!existsSync(file) || !statSync(file).isFile()) {
    throw new PawlError(
      "CONFIG_INVALID",
      `There is no file ${file}; run \`pawl init\` to make a project, or name its file with --config.`,
      { details: { file } },
    );
  }
  resolveOwnPackage();
  let exported: Record<string, unknown>;
  try {
    exported = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  } catch (error) {
    throw configFailure(file, error);
  }
  for (const name of EXPORT_NAMES) if (isProject(exported[name])) return exported[name];
  throw new PawlError(
    "CONFIG_INVALID",
    `${file} exports no project; end it with \`export default definePawl({ assets: […] })\`.`,
    { details: { file } },
  );
}

function isProject(value: unknown): value is Project {
  if (typeof value !== "object" || value === null) return false;
  const { specs, functions, sensors, syncs, shards } = value as Partial<Project>;
  const codes: readonly unknown[] = [functions, sensors, syncs, shards];
  return Array.isArray(specs) && codes.every((each) => each instanceof Map);
}
