import { PawlError } from "./errors.ts";
import type { MovePlan, MoveSpec } from "./move-spec.ts";
import { suggestion } from "./near-miss.ts";
import type { ShardsSpec } from "./shard-spec.ts";
import type { Topology } from "./topology.ts";

/** Checks the shards of a workspace against each other. Throws DEFINITION_INVALID. */
export function validateShards(spec: ShardsSpec): void {
  refuseTwice(
    "shard",
    spec.shards.map(({ shard }) => shard),
  );
  refuseTwice(
    "table",
    spec.tables.map(({ table }) => table),
  );
}

function refuseTwice(what: string, names: readonly string[]): void {
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice === undefined) return;
  throw new PawlError("DEFINITION_INVALID", `The shards name the ${what} ${twice} twice.`, {
    details: { kind: "shards", name: "shards", [what]: twice },
  });
}

/** Checks a move that code defines against the shards there are. Throws DEFINITION_INVALID. */
export function validateMove(move: MoveSpec, shards: ShardsSpec | null): void {
  const fault = planFault(move, shards);
  if (fault === null) return;
  throw new PawlError("DEFINITION_INVALID", `The move ${move.name} ${fault}`, {
    details: { kind: "move", name: move.name },
  });
}

/** What is wrong with a plan, as the end of a sentence; null when nothing is. */
export function planFault(
  plan: Pick<MovePlan, "to" | "tables" | "from">,
  shards: ShardsSpec | null,
): string | null {
  if (shards === null)
    return "needs shards, and the workspace has none: define them with shards().";
  const names = shards.shards.map(({ shard }) => shard);
  for (const [side, topology] of Object.entries({ from: plan.from, to: plan.to })) {
    const unknown = shardsOf(topology).find((shard) => !names.includes(shard));
    if (unknown !== undefined) {
      return `names the shard ${JSON.stringify(unknown)} in its topology \`${side}\`, which is not defined${suggestion(unknown, names)}.`;
    }
    const fault = topologyFault(topology);
    if (fault !== null) return `has a topology \`${side}\` ${fault}`;
  }
  const known = shards.tables.map(({ table }) => table);
  const missing = (plan.tables ?? []).find((table) => !known.includes(table));
  if (missing === undefined) return null;
  return `names the table ${JSON.stringify(missing)}, which the shards do not have${suggestion(missing, known)}.`;
}

/** The shards that a topology names, each once. */
export function shardsOf(topology: Topology): string[] {
  switch (topology.by) {
    case "tenant":
      return [...new Set([...Object.values(topology.tenants), topology.default])];
    case "hash":
      return [...new Set(topology.buckets)];
    case "range":
      return [...new Set(topology.ranges.map(({ shard }) => shard))];
  }
}

function topologyFault(topology: Topology): string | null {
  if (topology.by !== "range") return null;
  const open = topology.ranges.findIndex(({ below }) => below === null);
  const last = topology.ranges.length - 1;
  if (open === last) return null;
  return open === -1
    ? "whose last range ends somewhere: leave its `below` null, so that every key has a shard."
    : `with a range that never ends at place ${open}: only the last may have no \`below\`.`;
}
