import { describe, expect, test } from "vitest";
import { PawlError } from "../kernel/errors.ts";
import { areTokensRequired, type ConfigSources, loadConfig } from "./config.ts";

function load(sources: Partial<ConfigSources> = {}) {
  return loadConfig({ env: {}, ...sources });
}

function refusal(sources: Partial<ConfigSources>): string {
  try {
    load(sources);
  } catch (error) {
    if (error instanceof PawlError && error.code === "CONFIG_INVALID") return error.message;
    throw error;
  }
  throw new Error("the configuration was taken");
}

describe("loadConfig", () => {
  test("fills in defaults and freezes the result", () => {
    const config = load();
    expect(config).toMatchObject({ host: "127.0.0.1", port: 7290, data_dir: ".pawl" });
    expect(config.lease_ms).toBe(15_000);
    expect(Object.isFrozen(config)).toBe(true);
  });

  test("lets flags win over the environment, and that over the file", () => {
    const file = { name: "pawl.json", value: { port: 1, concurrency: 2, log_level: "warn" } };
    const env = { PAWL_PORT: "3", PAWL_CONCURRENCY: "4" };
    expect(load({ file, env, flags: { port: 5 } })).toMatchObject({
      port: 5,
      concurrency: 4,
      log_level: "warn",
    });
  });

  test("passes over flags that were not given", () => {
    expect(load({ env: { PAWL_PORT: "3" }, flags: { port: undefined } }).port).toBe(3);
  });

  test("takes DATABASE_URL, unless Pawl has a variable of its own", () => {
    const url = "postgres://localhost/one";
    expect(load({ env: { DATABASE_URL: url } }).database_url).toBe(url);
    const own = { PAWL_DATABASE_URL: "postgres://localhost/two" };
    expect(load({ env: { ...own, DATABASE_URL: url } }).database_url).toBe(own.PAWL_DATABASE_URL);
    expect(load({ env: { DATABASE_URL: url, ...own } }).database_url).toBe(own.PAWL_DATABASE_URL);
  });

  test("I83: gives no token to a server that only the project's file names", () => {
    const url = "https://pawl.example";
    const file = { name: "pawl.json", value: { url } };
    const refused =
      /would go to "https:\/\/pawl.example", which only pawl.json, url names.* --url or/;
    expect(refusal({ file, env: { PAWL_TOKEN: "t" } })).toMatch(refused);
    expect(refusal({ file, env: { PAWL_TOKEN_FILE: "f" } })).toMatch(refused);
    expect(refusal({ file, flags: { token: "t" } })).toMatch(refused);
    const stolen = { name: "pawl.json", value: { url, token_file: "/home/anna/token" } };
    expect(refusal({ file: stolen })).toMatch(refused);
    const hidden = {
      name: "pawl.json",
      value: { url, token: null, token_file: "/home/anna/token" },
    };
    expect(refusal({ file: hidden })).toMatch(refused);
    const none = { name: "pawl.json", value: { url, token: null } };
    expect(refusal({ file: none, env: { PAWL_TOKEN_FILE: "f" } })).toMatch(refused);
    const nowhere = { name: "pawl.json", value: { url: null } };
    expect(load({ file: nowhere, env: { PAWL_TOKEN: "t" } }).token).toBe("t");
    expect(load({ file, env: { PAWL_TOKEN: "t" }, flags: { url: null } }).url).toBeNull();
    expect(load({ file }).url).toBe(url);
    expect(load({ file, env: { PAWL_URL: url, PAWL_TOKEN: "t" } }).token).toBe("t");
    expect(load({ file, env: { PAWL_TOKEN: "t" }, flags: { url } }).token).toBe("t");
    const whole = { name: "pawl.json", value: { url, token: "t" } };
    expect(load({ file: whole }).token).toBe("t");
  });

  test("reads a list from the environment, separated by commas", () => {
    expect(load().hosts).toEqual([]);
    expect(load({ env: { PAWL_HOSTS: "pawl.example, pawl:7290" } }).hosts).toEqual([
      "pawl.example",
      "pawl:7290",
    ]);
    expect(load({ env: { PAWL_WEBHOOK_HOSTS: "alerts:8080" } }).webhook_hosts).toEqual([
      "alerts:8080",
    ]);
    expect(refusal({ file: { name: "pawl.json", value: { hosts: "pawl" } } })).toContain(
      "pawl.json, hosts: expected a",
    );
  });

  test("reads yes and no from the environment", () => {
    expect(load({ env: { PAWL_TOKENS_REQUIRED: "true" } }).tokens_required).toBe(true);
    expect(load({ env: { PAWL_UNSAFE: "0" } }).unsafe).toBe(false);
  });

  test("takes an empty variable for none, and leaves those of others alone", () => {
    expect(load({ env: { PAWL_PORT: "", PORT: "80", PAWL_DEBUG: "1" } }).port).toBe(7290);
  });

  test.each<[string, Partial<ConfigSources>]>([
    [
      "pawl.json has no field porrt. Did you mean port?",
      { file: { name: "pawl.json", value: { porrt: 1 } } },
    ],
    [
      "The environment has PAWL_PROT, which Pawl does not know. Did you mean PAWL_PORT?",
      { env: { PAWL_PROT: "1" } },
    ],
    ['PAWL_PORT: expected a number, got "many".', { env: { PAWL_PORT: "many" } }],
    ["PAWL_PORT: expected at most 65535, got 70000.", { env: { PAWL_PORT: "70000" } }],
    ["--concurrency: expected at least 1, got 0.", { flags: { concurrency: 0 } }],
    [
      'pawl.json, log_level: expected one of debug, info, warn, error, silent, got "loud".',
      { file: { name: "pawl.json", value: { log_level: "loud" } } },
    ],
    ["pawl.json: expected an object, got [].", { file: { name: "pawl.json", value: [] } }],
    [
      'DATABASE_URL: expected a URL such as postgres://user@host/database, got "mysql://me:…@h".',
      { env: { DATABASE_URL: "mysql://me:secret@h" } },
    ],
  ])("refuses with: %s", (message, sources) => {
    expect(refusal(sources)).toBe(message);
  });

  test("refuses a server for everyone that asks for no token", () => {
    const message = refusal({ flags: { host: "0.0.0.0", tokens_required: false } });
    expect(message).toContain("expected true while the host is 0.0.0.0, got false");
  });
});

describe("areTokensRequired", () => {
  test("asks for tokens as soon as others can reach the server", () => {
    expect(areTokensRequired(load())).toBe(false);
    expect(areTokensRequired(load({ flags: { host: "::1" } }))).toBe(false);
    expect(areTokensRequired(load({ flags: { host: "0.0.0.0" } }))).toBe(true);
    expect(areTokensRequired(load({ flags: { tokens_required: true } }))).toBe(true);
  });
});
