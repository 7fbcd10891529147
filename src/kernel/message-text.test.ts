import { describe, expect, test } from "vitest";
import { failurePattern, hidePassword, nearMiss } from "./message-text.ts";

describe("hidePassword", () => {
  test.each([
    ["postgres://ann:secret@host/db", "postgres://ann:…@host/db"],
    ["postgres://ann:se@cr/et#1@host:5432/db", "postgres://ann:…@host:5432/db"],
    ["postgres:/ann:secret@host/db", "postgres:/ann:…@host/db"],
    ["ann:secret@host/db", "ann:…@host/db"],
    ["http://:secret@host", "http://:…@host"],
    [
      "postgres://host/db?user=ann&password=secret&ssl=1",
      "postgres://host/db?user=ann&password=…&ssl=1",
    ],
    ["https://host/rpc?apiKey=secret", "https://host/rpc?apiKey=…"],
    ["host=db user=me password=secret dbname=x", "host=db user=me password=… dbname=x"],
    ["password = 'my secret' host=db", "password = … host=db"],
    ['"host=db;password=secret"', '"host=db;password=…"'],
    ["postgres:ann:secret", "postgres:ann:…"],
    ["ann:secret", "ann:…"],
    ['"ann:secret"', '"ann:…'],
  ])("I83: shows %s without the password", (address, shown) => {
    expect(hidePassword(address)).toBe(shown);
    expect(shown).not.toContain("secret");
  });

  test.each([
    "http://127.0.0.1:7290",
    "localhost:5432",
    '"localhost:5432"',
    '{"a":"b:c"}',
    "postgres://ann@host/db",
    "http://host/path",
    "",
    "nonsense",
  ])("leaves %j, which has none", (address) => {
    expect(hidePassword(address)).toBe(address);
  });
});

test("I83: hides what stands where a port would and is none, as the host is missing", () => {
  expect(hidePassword("postgres://anna:hunter2")).toBe("postgres://anna:…");
  expect(hidePassword('"postgres://anna:hunter2/orders"')).toBe('"postgres://anna:…');
  expect(hidePassword("postgres://anna:123456/orders")).toBe("postgres://anna:…");
  for (const address of [
    "http://pawl:7290/x",
    "http://[::1]:7290",
    "http://pawl:",
    "http://pawl",
  ]) {
    expect(hidePassword(address)).toBe(address);
  }
});

describe("nearMiss", () => {
  test("finds what differs by a slip, by case or by separators", () => {
    expect(nearMiss("partitons", ["pool", "partitions"])).toBe("partitions");
    expect(nearMiss("max_attempts", ["maxAttempts", "delayMs"])).toBe("maxAttempts");
    expect(nearMiss("sing", ["pool", "sign"])).toBe("sign");
  });

  test("suggests nothing for one or two letters but what differs by case or separators", () => {
    expect(nearMiss("a", ["b", "eu"])).toBeNull();
    expect(nearMiss("eu", ["us", "ea", "eur"])).toBeNull();
    expect(nearMiss("EU", ["us", "eu"])).toBe("eu");
    expect(nearMiss("eux", ["us", "eu"])).toBe("eu");
  });

  test("suggests nothing for what is not alike", () => {
    expect(nearMiss("colour", ["pool", "partitions"])).toBeNull();
    expect(nearMiss("x", [])).toBeNull();
  });

  test("I64: looks up short names only, among as many candidates as cost little", () => {
    const long = "n".repeat(65);
    expect(nearMiss(long, [long])).toBeNull();
    expect(nearMiss("n".repeat(64), ["n".repeat(63)])).toBe("n".repeat(63));
    let looked = 0;
    const candidates = Array.from({ length: 200_000 }, (_, at) => `asset${at}`);
    const counted = new Proxy(candidates, {
      get(list, key, receiver): unknown {
        if (typeof key === "string" && /^\d+$/.test(key)) looked++;
        return Reflect.get(list, key, receiver);
      },
    });
    expect(nearMiss("zzzzzz_zzz", counted)).toBeNull();
    expect(looked).toBeLessThan(20_000);
    expect(nearMiss("pool", ["x".repeat(1_048_576), "pools"])).toBe("pools");
  });
});

describe("failurePattern", () => {
  test.each([
    ["no rows for 2025-01-03", "no rows for …"],
    ["no rows for 2025-01-03T04:00:00Z", "no rows for …"],
    ["timeout after 30000 ms", "timeout after … ms"],
    ['unknown region "us-east"', 'unknown region "…"'],
    ["column 'price' can't be null", "column '…' can't be null"],
    ["don't and won't", "don't and won't"],
    ["block 0xdeadbeef is gone", "block … is gone"],
    ["job 7b0e1f9c-1111-4222-8333-444455556666 failed", "job … failed"],
    ["run run_abcdefghij0123456789abcdef ended", "run … ended"],
    ["s3://bucket/2025/01/03.parquet is missing", "s3://bucket/….parquet is missing"],
    ["rows 1, 2, 3 are bad", "rows … are bad"],
    ["connection refused", "connection refused"],
    ["", ""],
  ])("%j becomes %j", (message, pattern) => {
    expect(failurePattern(message, [])).toBe(pattern);
  });

  test("leaves out partition keys and the values of their dimensions", () => {
    expect(failurePattern("north is closed", ["north", "south"])).toBe("… is closed");
    expect(failurePattern("closed: south.", ["north", "south"])).toBe("closed: ….");
    const key = "day=2025-01-03,region=north";
    expect(failurePattern(`nothing for ${key}`, [key])).toBe("nothing for …");
    expect(failurePattern("north is closed", [key])).toBe("… is closed");
    expect(failurePattern("northern lights", ["north"])).toBe("northern lights");
  });

  test("cuts what is long, and is quick about what is hostile", () => {
    expect(failurePattern("x".repeat(100_000), [])).toHaveLength(500);
    expect(failurePattern(`"${"'".repeat(100_000)}`, []).length).toBeLessThanOrEqual(500);
  });
});
