import { changeRouting } from "../../work/routing/commands.ts";
import { ROUTING_VERSION_FIELDS } from "../../work/routing/api.ts";
import { PawlError } from "../../kernel/errors.ts";
import { ROUTES, ROUTING, ROUTING_VERSIONS, type RoutingRow } from "../../work/routing/rows.ts";
import type { Condition } from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, type Handlers, readAt, type Reply, submitted } from "../http/call.ts";
import { listRows, pickFields } from "../http/read-within.ts";

async function routingRow(reader: Reader): Promise<RoutingRow | null> {
  return (await reader.load(ROUTING, [["routing"]]))[0] ?? null;
}

function getRouting(call: Call<"getRouting">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const routing = await routingRow(reader);
    const groups = await reader.countBy(ROUTES, [], ["shard"]);
    const shards = groups
      .map(({ values, count }) => ({ shard: String(values["shard"]), tenants: count }))
      .toSorted((one, other) => (one.shard < other.shard ? -1 : 1));
    const { pos } = await reader.head();
    const answer = {
      version: routing?.version ?? 0,
      default_shard: routing?.default_shard ?? null,
      default_epoch: routing?.default_epoch ?? 0,
      tenants: shards.reduce((sum, { tenants }) => sum + tenants, 0),
      shards,
      updated_at: routing?.updated_at ?? null,
      pos,
    };
    return { answer, pos };
  });
}

function getRoute(call: Call<"getRoute">): Promise<Reply> {
  const { tenant } = call.query;
  return readAt(call, async (reader) => {
    const routing = await routingRow(reader);
    const [own] = await reader.load(ROUTES, [[tenant]]);
    const version = routing?.version ?? 0;
    const shard = own?.shard ?? routing?.default_shard ?? null;
    if (shard === null) {
      throw new PawlError(
        "SHARD_NOT_FOUND",
        `The tenant ${JSON.stringify(tenant)} is on no shard: it has no route, and the routing ` +
          `(version ${version}) no default. \`pawl routing set\` gives it one.`,
        { details: { tenant, version } },
      );
    }
    const epoch = own?.epoch ?? routing?.default_epoch ?? 0;
    const { pos } = await reader.head();
    return { answer: { tenant, shard, epoch, own: own !== undefined, version }, pos };
  });
}

function listRoutes(call: Call<"listRoutes">): Promise<Reply> {
  const { shard } = call.query;
  const where: Condition[] = shard === undefined ? [] : [{ cell: "shard", is: "=", value: shard }];
  return listRows(call, { table: ROUTES, where, along: ["tenant"] }, (rows) =>
    rows.map((row) => pickFields(row, ["tenant", "shard", "epoch", "updated_at"])),
  );
}

/** What can be done with the routing. */
export const ROUTING_HANDLERS = {
  getRouting,
  changeRouting: (call) =>
    submitted(call, changeRouting(call.body), ({ version }) => ({
      message: `The routing is at version ${version}.`,
      version,
    })),
  listRoutes,
  getRoute,
  listRoutingVersions: (call) => {
    const list = { table: ROUTING_VERSIONS, where: [], along: ["version"] as const };
    return listRows(call, { ...list, descending: true }, (rows) =>
      rows.map((row) => pickFields(row, ROUTING_VERSION_FIELDS)),
    );
  },
} satisfies Handlers;
