import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { extname } from "node:path";
import { PawlError } from "../core/errors.ts";

const ROOT = new URL("../../", import.meta.url);
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
