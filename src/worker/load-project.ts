import { readFileSync, existsSync, statSync } from "node:fs";
import { registerHooks } from "node:module";
import { extname, resolve } from "node:path";
import { PawlError } from "../kernel/errors.ts";
import { pathToFileURL } from "node:url";
import type { Project } from "../define/define-pawl.ts";
import { configFailure } from "./config-failure.ts";

const ROOT = new URL("../..", import.meta.url);
const EXTENSION = extname(import.meta.url);
/** How Node is to read our own files: from the sources their types are stripped first. */
const FORMAT = EXTENSION === ".ts" ? "module-typescript" : "module";

let isRegistered = false;

/**
 * Makes `import … from "pawl"` mean the Pawl that is running, whatever is installed beside the
 * importing file: projects work without an installation and there is one copy of every class.
 */
export function resolveOwnPackage(): void {
  if (isRegistered) return;
  isRegistered = true;
  const { name, exports } = readPackage();
  registerHooks({
    resolve(specifier, context, nextResolve) {
      if (specifier !== name && !specifier.startsWith(`${name}/`)) {
        return nextResolve(specifier, context);
      }
      const path = `.${specifier.slice(name.length)}`;
      const target = exports[path];
      if (target === undefined) {
        throw new PawlError("CONFIG_INVALID", `The package ${name} has no part ${specifier}.`);
      }
      return { url: ownFile(target), format: FORMAT, shortCircuit: true };
    },
  });
}

/** The file of an export: as built, or its source when Pawl runs from its sources. */
function ownFile(target: string): string {
  if (EXTENSION !== ".ts") return new URL(target, ROOT).href;
  return new URL(target.replace(/^\.\/dist\//, "src/").replace(/\.js$/, ".ts"), ROOT).href;
}

/** The package's name, and the file of each part of it. */
function readPackage(): { name: string; exports: Record<string, string> } {
  const { name, exports } = JSON.parse(readFileSync(new URL("package.json", ROOT), "utf8")) as {
    name: string;
    exports: Record<string, string | { default: string }>;
  };
  const files = Object.entries(exports).map(([path, target]) => [
    path,
    typeof target === "string" ? target : target.default,
  ]);
  return { name, exports: Object.fromEntries(files) as Record<string, string> };
}

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
