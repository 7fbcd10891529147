import { expect, test } from "vitest";
import { shardConformance } from "./conformance/shard-conformance.ts";
import { createTables, insertItems, policy, TABLES } from "./conformance/stage.ts";
import { SplitStage } from "./conformance/step-stage.ts";
import { openHttpPair } from "./http-pair.ts";

shardConformance("HTTP", () => openHttpPair());

test("I81: a stream stops where a served shard changes no schemas, and says how it would", async () => {
  const pair = await openHttpPair({ target: false });
  await createTables(pair, TABLES.items);
  await pair.sql("source", insertItems("a", 1));
  const split = new SplitStage(pair, [policy("items")], ["a"]);
  await split.run("check", "arm", "copy");
  await split.step("ddl", { ddl: "alter table items add column x integer" });
  await expect(split.run("tail")).rejects.toMatchObject({
    code: "DDL_NOT_ALLOWED",
    message: expect.stringContaining("--allow-ddl"),
  });
  await pair.close();
});
