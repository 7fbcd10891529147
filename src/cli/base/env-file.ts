import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { PawlError } from "../../kernel/errors.ts";

/** The file beside a project's definitions that has variables for it. */
export const ENV_FILE = ".env";

/** Variables by their names. */
export type Variables = Readonly<Record<string, string>>;

/**
 * The variables in the `.env` of a folder; none where it has none. Throws CONFIG_INVALID for one that
 * cannot be read, with the line and never with what stands there: that may be a secret.
 */
export function readEnvFile(directory: string): Variables {
  const path = join(directory, ENV_FILE);
  let text: string;
  try {
    // Editors of Windows begin files with a mark, which Node takes for a part of the first name.
    text = readFileSync(path, "utf8").replace(/^\uFEFF/, "");
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    // A folder of this name is somebody else's: virtual environments of Python are called so.
    if (code === "ENOENT" || code === "EISDIR" || code === "ENOTDIR") return {};
    throw new PawlError(
      "CONFIG_INVALID",
      `${path} cannot be read (${code}). Make it readable for the user that runs Pawl, or remove it.`,
      { cause, details: { file: path } },
    );
  }
  const fault = faultIn(text);
  if (fault === null) return { ...parseEnv(text) } as Variables;
  throw new PawlError("CONFIG_INVALID", `${path}, line ${fault.line}: ${fault.expected}.`, {
    details: { file: path, line: fault.line },
  });
}

const ASSIGNMENT = /^\s*(?:export\s+)?[A-Za-z_][\w.-]*\s*=\s*(.*)$/;

/** What Node would pass over without a word: the first line that sets nothing, or a quote left open. */
function faultIn(text: string): { line: number; expected: string } | null {
  const lines = text.split(/\r?\n/);
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? "";
    if (/^\s*(?:#|$)/.test(line)) continue;
    const [, value] = ASSIGNMENT.exec(line) ?? [];
    if (value === undefined)
      return { line: at + 1, expected: "expected NAME=value or # a comment" };
    const quote = /^["'`]/.exec(value)?.[0];
    if (quote === undefined) continue;
    // A value in quotes may go on over several lines.
    const end = [value.slice(1), ...lines.slice(at + 1)].findIndex((each) => each.includes(quote));
    if (end < 0) return { line: at + 1, expected: `expected a ${quote} that ends the value` };
    at += end;
  }
  return null;
}
