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
