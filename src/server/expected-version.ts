import { sayingDifferently } from "../core/api/aliases.ts";
import { PawlError } from "../core/errors.ts";

type Conditional = { expected_state_version?: number | undefined } | undefined;

/** The version that a change is for: as its body or its query says, or `If-Match`; nothing without. */
export function expectedVersion(call: {
  body?: Conditional;
  query?: Conditional;
  header(name: string): string | undefined;
}): { expected_state_version?: number } {
  const said = call.body?.expected_state_version ?? call.query?.expected_state_version;
  const matched = versionOf(call.header("if-match"));
  if (said !== undefined && matched !== undefined && said !== matched) {
    throw sayingDifferently("If-Match", "expected_state_version");
  }
  const expected = said ?? matched;
  return expected === undefined ? {} : { expected_state_version: expected };
}

function versionOf(ifMatch: string | undefined): number | undefined {
  if (ifMatch === undefined || ifMatch === "*") return undefined;
  const version = /^(?:W\/)?"?(\d{1,15})"?$/.exec(ifMatch)?.[1];
  if (version !== undefined) return Number(version);
  throw new PawlError(
    "INPUT_INVALID",
    `If-Match must be a state version such as "3", not ${JSON.stringify(ifMatch)}.`,
    { details: { if_match: ifMatch } },
  );
}
