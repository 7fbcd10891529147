import type { Refusal } from "../../api/call.ts";

/** What is wrong with which field of a form, and whether that is all that is wrong. */
export type PlanProblems = { at: Readonly<Record<string, string>>; isAllSaid: boolean };

const NONE: PlanProblems = { at: {}, isAllSaid: true };

/** Fields that a refusal is about when its details name them, the most telling first. */
const TELLING = ["tenant", "target", "source", "shard"] as const;

const FIELD_OF = {
  tenant: "tenants",
  target: "target",
  source: "source",
  shard: "target",
} as const;

/** What a refusal says of the fields of a plan: by their names, or by what its details are about. */
export function planProblems(refusal: Refusal | null, known: readonly string[]): PlanProblems {
  if (refusal === null) return NONE;
  const at: Record<string, string> = {};
  let isAllSaid = true;
  for (const { field, message } of refusal.fields) {
    const [, name = "", ...place] = field.split(".");
    if (!known.includes(name)) isAllSaid = false;
    else at[name] ??= place.length === 0 ? message : `${placeText(place)} ${message}`;
  }
  if (refusal.fields.length > 0) return { at, isAllSaid };
  const telling = TELLING.find((name) => typeof refusal.details[name] === "string");
  if (telling === undefined || refusal.code === "STATE_VERSION_MISMATCH") {
    return { at, isAllSaid: false };
  }
  return { at: { [FIELD_OF[telling]]: refusal.message }, isAllSaid: true };
}

/** Lists count from 0 in the server's words, and from 1 for people. */
function placeText([first = "", ...rest]: readonly string[]): string {
  const index = Number(first);
  return Number.isInteger(index) ? `Line ${index + 1}` : [first, ...rest].join(".");
}
