import type { AnswerOf } from "../../../src/work/operations.ts";
import { useAnswer } from "../api/use-answer.ts";

type Spec = AnswerOf<"listDefinitions">["items"][number]["spec"];

/** The shards of the workspace as they are published, and the tables that they have in common. */
export type ShardsSpec = Extract<Spec, { kind: "shards" }>;

/** The shards of the workspace: undefined while they are asked for, null when there are none. */
export function useShards(): ShardsSpec | null | undefined {
  const { data } = useAnswer("listDefinitions", { query: { kind: "shards" } });
  if (data === undefined) return undefined;
  return data.items.map(({ spec }) => spec).find((spec) => spec.kind === "shards") ?? null;
}
