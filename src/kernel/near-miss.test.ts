import { describe, expect, test } from "vitest";
import { nearMiss } from "./near-miss.ts";

describe("nearMiss", () => {
  test("finds what differs by a slip, by case or by separators", () => {
    expect(nearMiss("partitons", ["pool", "partitions"])).toBe("partitions");
    expect(nearMiss("max_attempts", ["maxAttempts", "delayMs"])).toBe("maxAttempts");
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
