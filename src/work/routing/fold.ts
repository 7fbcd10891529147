import { assert, present } from "../../kernel/errors.ts";
import type { EventData } from "../events.ts";
import type { Rows } from "../rows.ts";
import type { Folding, Recorded } from "../fold.ts";

/** The key of the one routing policy. */
export const ROUTING_ID = "routing";

const routingChanged: Folding<"RoutingChanged"> = {
  subject: () => 0,
  touches: ({ routes }) => [
    ["routing", [ROUTING_ID]],
    ...routes.flatMap(({ tenant }) => [
      ["routes", [tenant]] as const,
      ["splitTenants", [tenant]] as const,
    ]),
  ],
  apply(rows, event) {
    const { data, pos, occurred_at } = event;
    const { version, default_shard, routes, cause } = data;
    const before = rows.routing.get(ROUTING_ID);
    assert(version === (before?.version ?? 0) + 1, "versions of the routing grow by one");
    assert(default_shard !== undefined || routes.length > 0, "a version changes something");
    rows.routing.put({
      id: ROUTING_ID,
      version,
      default_shard: default_shard ?? before?.default_shard ?? null,
      default_epoch: default_shard === undefined ? (before?.default_epoch ?? 0) : version,
      updated_at: occurred_at,
      row_version: pos,
    });
    const moved = routes.map((route) => moveTenant(rows, route, cause, event));
    const { reason, changed_by } = data;
    rows.routingVersions.insert({
      version,
      default_shard: default_shard ?? null,
      routes: moved,
      cause,
      reason,
      changed_by,
      at: occurred_at,
      row_version: pos,
    });
  },
};

type Routes = EventData<"RoutingChanged">;

/** Gives a tenant its new route; answers where it was, too. */
function moveTenant(
  rows: Rows,
  { tenant, shard }: Routes["routes"][number],
  cause: Routes["cause"],
  { data, pos, occurred_at }: Recorded<"RoutingChanged">,
): { tenant: string; shard: string; from: string | null } {
  const split = rows.splitTenants.get(tenant)?.split_id ?? null;
  const allowed = cause.type === "split" ? cause.split_id : null;
  assert(split === allowed, `only its own split moves ${tenant}`);
  const from = rows.routes.get(tenant)?.shard ?? null;
  const at = { updated_at: occurred_at, row_version: pos };
  rows.routes.put({ tenant, shard, epoch: data.version, ...at });
  return { tenant, shard, from };
}

/** Checks that a version of the routing, the newest there is, was made by the commit of a split. */
export function assertCommit(
  rows: Rows,
  { split_id, direction, routing_version }: EventData<"SplitCutOver">,
  tenants: readonly string[],
): void {
  assert(rows.routing.get(ROUTING_ID)?.version === routing_version, "the routing has that version");
  const { cause, routes } = present(
    rows.routingVersions.get(routing_version),
    "a commit record stands beside its change of the routing",
  );
  const isOwn =
    cause.type === "split" && cause.split_id === split_id && cause.direction === direction;
  assert(isOwn, "a commit record stands beside its own change of the routing");
  assert(routes.length === tenants.length, "a commit moves all tenants of the split");
}

/** The foldings of the routing. */
export const ROUTING_FOLDS = { RoutingChanged: routingChanged };
