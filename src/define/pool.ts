import { PoolSpec } from "../work/definition/spec.ts";
import { parseDefinition, refuseUnknownOptions } from "./parse-definition.ts";

/** A pool: at most `limit` tasks of the assets that name it run at once. */
export function pool(name: string, options: { limit: number }): PoolSpec {
  const subject = `The pool ${JSON.stringify(name)}`;
  refuseUnknownOptions(subject, options, ["limit"]);
  const spec = { kind: "pool", pool: name, limit: options.limit };
  return Object.freeze(parseDefinition(subject, PoolSpec, spec));
}
