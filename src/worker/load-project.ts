import { readFileSync, existsSync, statSync } from "node:fs";
import { dirname, extname, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { PawlError } from "../kernel/errors.ts";
import { isError, plainError, shortened } from "./plain-values.ts";
import { registerHooks } from "node:module";
import type { Project } from "../define/define-pawl.ts";

type Place = { file: string; line: number };

/** What went wrong while a configuration was loaded, in one sentence that names file and line. */
export function configFailure(file: string, thrown: unknown): PawlError {
  const error = plainError(thrown);
  const place = placeOf(file, error);
  const where = place === null ? file : `${place.file}:${place.line}`;
  const details = { file, ...(place === null ? {} : { at: where }) };
  if (error instanceof PawlError) {
    return new PawlError(error.code, `${where}: ${error.message}`, {
      details: { ...error.details, ...details },
      cause: error,
    });
  }
  return new PawlError(
    "CONFIG_INVALID",
    `${where} ${isError(thrown) ? complaint(error) : `threw ${shortened(thrown)} while it was loaded.`}`,
    { details, cause: error },
  );
}

function complaint(error: Error): string {
  const code = (error as NodeJS.ErrnoException).code;
  const message = (error.message.split("\n")[0] ?? "").replace(/\.$/, "");
  switch (code) {
    case "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX":
      return `cannot run without a build: ${message}. Use plain objects instead of enums and the like.`;
    case "ERR_INVALID_TYPESCRIPT_SYNTAX":
      return `is not valid TypeScript: ${message}. Correct the syntax there.`;
    case "ERR_MODULE_NOT_FOUND":
      return missingModule(message);
    default:
      return error.name === "SyntaxError"
        ? `is not valid: ${message}. Correct it there.`
        : `failed while it was loaded: ${error.name}: ${message}.`;
  }
}

function missingModule(message: string): string {
  const name = /'([^']+)'/.exec(message)?.[1] ?? "a module";
  return message.startsWith("Cannot find package")
    ? `imports the package ${name}, which is not installed; run \`npm install ${name}\` beside it.`
    : `imports ${name}, which does not exist; correct the path, with its extension.`;
}

/** The first place of the error in the user's own files: in the stack's head, or its frames. */
function placeOf(file: string, error: Error): Place | null {
  const stack = error.stack ?? "";
  const head = /^(file:\/\/\/\S+|\/\S.*|[A-Za-z]:\\.*):(\d+)$/m.exec(stack.split("\n")[0] ?? "");
  if (head !== null) return { file: pathOf(head[1] ?? ""), line: Number(head[2]) };
  const missing = /imported from (.+)$/m.exec(error.message)?.[1];
  if (missing !== undefined) return importPlace(missing, error.message);
  const folder = dirname(file);
  for (const [, url, line] of stack.matchAll(/(file:\/\/\/[^\s)]+?):(\d+):\d+/g)) {
    const path = pathOf(url ?? "");
    if (path.startsWith(folder) && !path.includes("node_modules")) {
      return { file: path, line: Number(line) };
    }
  }
  return null;
}

/** Where a file imports what could not be found; Node says only which file it was. */
function importPlace(importer: string, message: string): Place | null {
  const wanted = /'([^']+)'/.exec(message)?.[1]?.split("/").at(-1);
  if (wanted === undefined) return null;
  try {
    const lines = readFileSync(pathOf(importer), "utf8").split("\n");
    const index = lines.findIndex(
      (line) => /\b(from|import)\b/.test(line) && line.includes(wanted),
    );
    return index < 0 ? null : { file: pathOf(importer), line: index + 1 };
  } catch {
    return null;
  }
}

function pathOf(place: string): string {
  return place.startsWith("file:") ? fileURLToPath(place) : place;
}

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
