import { describe, expect, test } from "vitest";
import { targetKeyOf, syncRefOf, targetOfText } from "./spec.ts";

describe("targetOfText", () => {
  test("reads what a target is told by, whatever is in it", () => {
    const target = { network: "main, net=1 %", wallet: "0xAb" };
    expect(targetOfText(targetKeyOf(target))).toEqual(target);
  });

  test("takes fields in any order, and a value that nobody encoded", () => {
    expect(targetOfText("wallet=0x1,network=main=net%zz")).toEqual({
      network: "main=net%zz",
      wallet: "0x1",
    });
  });

  test.each(["", "network", "=x", "network=", "a=1,a=2", "a=1,", "1a=2"])(
    "refuses %j, which names no fields",
    (text) => {
      expect(() => targetOfText(text)).toThrow("is no target");
    },
  );
});

describe("syncRefOf", () => {
  test("leaves an id alone and puts the fields of a target in order", () => {
    expect(syncRefOf("01HZX")).toBe("01HZX");
    expect(syncRefOf("eth.transfers@wallet=0x1,network=main")).toBe(
      "eth.transfers@network=main,wallet=0x1",
    );
  });
});
