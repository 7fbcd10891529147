import type { z } from "zod";
import { PawlError } from "../../kernel/errors.ts";
import { checkJsonBudget } from "../../kernel/json-budget.ts";

/** Most values in a body: a thousand statements with some hundred parameters each. */
const VALUES_MAX = 500_000;

/** The value of a body as a schema has it; `INPUT_INVALID` with what is wrong first, and all of it in `errors`. */
export function checkedJson<Value>(schema: z.ZodType<Value>, text: string): Value {
  checkJsonBudget(text, VALUES_MAX);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new PawlError("INPUT_INVALID", `The body is not JSON: ${reason}.`, { cause: error });
  }
  const { success, data, error } = schema.safeParse(value);
  if (success) return data;
  const errors = error.issues.slice(0, 20).map(({ path, message }) => {
    return { field: ["body", ...path.map(String)].join("."), message };
  });
  const [first = { field: "body", message: "is wrong" }] = errors;
  throw new PawlError("INPUT_INVALID", `${first.field}: ${first.message}.`, {
    details: { errors },
  });
}
