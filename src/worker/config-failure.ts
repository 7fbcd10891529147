import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { PawlError } from "../kernel/errors.ts";
import { isError, plainError, shortened } from "./plain-values.ts";

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
