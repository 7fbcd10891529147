import { describe, expect, test } from "vitest";
import { databaseAddress } from "./database-address.ts";

describe("databaseAddress", () => {
  test.each(["postgres://ann@host/db", "postgresql://host", "postgres:"])(
    "%s is a server",
    (url) => {
      expect(databaseAddress(url, { subject: "It" })).toEqual({ type: "postgres", url });
    },
  );

  test.each([
    ["a/b.db", "a/b.db"],
    ["C:\\a.db", "C:\\a.db"],
    ["file:a.db", "a.db"],
    ["sqlite:///a.db", "/a.db"],
  ])("%s is a file", (address, file) => {
    expect(databaseAddress(address, { subject: "It" })).toEqual({ type: "sqlite", file });
  });

  test.each(["mysql://ann:secret@host/db", "duckdb://secret.db", "https://secret"])(
    "%s is refused, and not repeated",
    (address) => {
      expect(() => databaseAddress(address, { subject: "The database" })).toThrow(
        expect.objectContaining({
          code: "CONFIG_INVALID",
          message: expect.toSatisfy(
            (text: string) =>
              text.startsWith(`The database is a ${address.split("//")[0]}// URL`) &&
              !text.includes("secret"),
          ),
        }),
      );
    },
  );
});
