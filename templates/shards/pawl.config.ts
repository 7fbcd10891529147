import { byTenant, definePawl, move, shards, sqliteShard } from "pawl";
import { fileOf } from "./places.ts";

export default definePawl({
  shards: shards({
    shards: { east: sqliteShard(fileOf("east")), west: sqliteShard(fileOf("west")) },
    // In the order of their foreign keys, each with the column that says whose a row is.
    tables: { customers: "tenant", orders: "tenant" },
  }),
  moves: [
    // Rows at rest: fir and oak go to west, everybody else stays.
    move("spread", {
      from: byTenant({}, "east"),
      to: byTenant({ fir: "west", oak: "west" }, "east"),
      strategy: { type: "cardinality", rows: 200 },
    }),
  ],
});
