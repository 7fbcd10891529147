import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ShardPair, shardConformance } from "./conformance/shard-conformance.ts";
import { createTables, insertItems, policy, TABLES } from "./conformance/stage.ts";
import { SplitStage } from "./conformance/step-stage.ts";
import { openHttpPair } from "./http-pair.ts";

shardConformance("HTTP", () => openHttpPair());

describe("a split to a served shard that changes no schemas", () => {
  const ddl = "alter table items add column x integer";
  let pair: ShardPair;
  let split: SplitStage;

  beforeEach(async () => {
    pair = await openHttpPair({ target: false });
    await createTables(pair, TABLES.items);
    await pair.sql("source", insertItems("a", 1));
    split = new SplitStage(pair, [policy("items")], ["a"]);
    await split.run("check", "arm");
  });
  afterEach(() => pair.close());

  const refused = (sentence: RegExp) => ({
    code: "DDL_NOT_ALLOWED",
    message: expect.stringMatching(sentence),
  });

  test("I81: stops where it has come to a change of one, and says how it would go on", async () => {
    await split.run("copy");
    await split.step("ddl", { ddl });
    await expect(split.run("tail")).rejects.toMatchObject(refused(/--allow-ddl/));
  });

  test("I81: says before the copy already that one was not taken over", async () => {
    const changing = split.step("ddl", { ddl });
    await expect(changing).rejects.toMatchObject(refused(/Do not ask for it again.*--allow-ddl/s));
    await expect(split.run("copy")).rejects.toMatchObject(refused(/--allow-ddl/));
  });
});
