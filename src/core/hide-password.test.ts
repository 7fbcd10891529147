import { describe, expect, test } from "vitest";
import { hidePassword } from "./hide-password.ts";

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
  ])("I83: shows %s without the password", (address, shown) => {
    expect(hidePassword(address)).toBe(shown);
    expect(shown).not.toContain("secret");
  });

  test.each([
    "http://127.0.0.1:7290",
    "postgres://ann@host/db",
    "http://host/path",
    "",
    "nonsense",
  ])("leaves %j, which has none", (address) => {
    expect(hidePassword(address)).toBe(address);
  });
});
