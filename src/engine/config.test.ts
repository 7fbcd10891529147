import { describe, expect, test } from "vitest";
import { PawlError } from "../kernel/errors.ts";
import { isTaskVariable } from "../kernel/task-variables.ts";
import { areTokensRequired, type ConfigSources, loadConfig, mailSettingsOf } from "./config.ts";

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

  test("leaves the DATABASE_URL of a file to the application, whose database it is", () => {
    const envFile = { name: ".env", env: { DATABASE_URL: "file:./dev.db" } };
    expect(load({ envFile }).database_url).toBeNull();
    const own = { name: ".env", env: { PAWL_DATABASE_URL: "postgres://localhost/pawl" } };
    expect(load({ envFile: own }).database_url).toBe("postgres://localhost/pawl");
  });

  test("I83: gives no password of the user's to a database that only the project's files name", () => {
    const url = "postgres://me@evil.example/db";
    const env = { PGPASSWORD: "hunter2" };
    const envFile = { name: ".env", env: { PAWL_DATABASE_URL: url } };
    const file = { name: "pawl.json", value: { database_url: url } };
    expect(refusal({ envFile, env })).toMatch(
      /^PGPASSWORD: the password would go to "postgres:\/\/me@evil\.example\/db", which only \.env, PAWL_DATABASE_URL/,
    );
    expect(refusal({ file, env })).toMatch(
      /only pawl\.json, database_url names.* with DATABASE_URL/,
    );
    const empty = { name: "pawl.json", value: { database_url: "postgres://me:@evil.example/db" } };
    expect(refusal({ file: empty, env })).toMatch(/^PGPASSWORD: /);
    expect(refusal({ file, env })).not.toContain("hunter2");

    expect(load({ file, envFile }).database_url).toBe(url);
    expect(load({ file, env: { PGPASSWORD: "" } }).database_url).toBe(url);
    expect(load({ file, env: { ...env, DATABASE_URL: url } }).database_url).toBe(url);
    const whole = "postgres://me:own@db.example/db";
    expect(
      load({ envFile: { name: ".env", env: { PAWL_DATABASE_URL: whole } }, env }).database_url,
    ).toBe(whole);
    const none = { name: "pawl.json", value: { database_url: null } };
    expect(load({ file: none, env }).database_url).toBeNull();
  });

  test("takes variables of a file behind those of the environment, and before pawl.json", () => {
    const envFile = { name: ".env", env: { PAWL_PORT: "7301", PAWL_CONCURRENCY: "3" } };
    const file = { name: "pawl.json", value: { port: 7302 } };
    expect(load({ file, envFile })).toMatchObject({ port: 7301, concurrency: 3 });
    expect(load({ envFile, env: { PAWL_PORT: "7303" } }).port).toBe(7303);
    expect(load({ envFile, env: { PAWL_PORT: "" } }).port).toBe(7290);
    const wrong = { name: ".env", env: { PAWL_PROT: "1" } };
    expect(refusal({ envFile: wrong })).toBe(
      ".env has PAWL_PROT, which Pawl does not know. Did you mean PAWL_PORT?",
    );
  });

  test("sends no token of the user's to a server that only a file of variables names", () => {
    const url = "https://evil.example";
    const envFile = { name: ".env", env: { PAWL_URL: url } };
    const refused =
      /^PAWL_TOKEN: the token would go to "https:\/\/evil\.example", which only \.env/;
    expect(refusal({ envFile, env: { PAWL_TOKEN: "t" } })).toMatch(refused);
    expect(refusal({ envFile, env: { PAWL_TOKEN_FILE: "f" } })).toMatch(/^PAWL_TOKEN_FILE: /);
    expect(refusal({ envFile, flags: { token: "t" } })).toMatch(/^--token: /);
    const hidden = { name: ".env", env: { PAWL_URL: url, PAWL_TOKEN_FILE: "/home/anna/token" } };
    expect(refusal({ envFile: hidden })).toMatch(/PAWL_TOKEN_FILE: the token would go/);
    expect(load({ envFile, env: { PAWL_URL: "https://own.example", PAWL_TOKEN: "t" } }).url).toBe(
      "https://own.example",
    );
    const whole = { name: ".env", env: { PAWL_URL: url, PAWL_TOKEN: "t" } };
    expect(load({ envFile: whole })).toMatchObject({ url, token: "t" });
  });

  test("takes the address of the page, and refuses one that is none", () => {
    expect(load().public_url).toBeNull();
    const url = "https://pawl.example";
    expect(load({ env: { PAWL_PUBLIC_URL: url } }).public_url).toBe(url);
    expect(refusal({ env: { PAWL_PUBLIC_URL: "pawl.example" } })).toBe(
      'PAWL_PUBLIC_URL: expected a URL such as http://127.0.0.1:7290, got "pawl.example".',
    );
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

  test("says with what e-mail is sent, and how it is encrypted", () => {
    const mailOf = (PAWL_SMTP_URL: string, PAWL_EMAIL_FROM = "Pawl <pawl@example.com>") =>
      mailSettingsOf(load({ env: { PAWL_SMTP_URL, PAWL_EMAIL_FROM } }));
    const from = { name: "Pawl", address: "pawl@example.com" };
    expect(mailSettingsOf(load())).toBeNull();
    expect(mailOf("smtps://me%40example.com:p%40ss%3A@mail.example")).toEqual({
      host: "mail.example",
      port: 465,
      tls: "from_start",
      login: { user: "me@example.com", pass: "p@ss:" },
      from,
    });
    expect(mailOf("smtp://mail.example")).toMatchObject({
      port: 587,
      tls: "starttls",
      login: null,
    });
    expect(mailOf("smtp://mail.example:25?tls=none")).toMatchObject({ port: 25, tls: "none" });
    for (const host of ["localhost", "127.0.0.1", "[::1]"]) {
      expect(mailOf(`smtp://${host}:1025`, "pawl@example.com"), host).toMatchObject({
        host: host.replaceAll(/[[\]]/g, ""),
        tls: "none",
        from: { name: "", address: "pawl@example.com" },
      });
    }
  });

  test("refuses what e-mail cannot be sent with, and repeats no password", () => {
    const PAWL_EMAIL_FROM = "pawl@example.com";
    for (const PAWL_SMTP_URL of [
      "mail.example:587",
      "me:s3cret@mail.example",
      "https://me:s3cret@mail.example",
      "smtp://",
      "smtp://me:s3cret@mail.example/inbox",
      "smtp://me:s3#cret@mail.example",
      "smtp://me:s3cret@mail.example?tls=no",
      "smtps://me:s3cret@mail.example?tls=none",
      "smtp://me@mail.example",
      "smtp://me:%ff@mail.example",
    ]) {
      const said = refusal({ env: { PAWL_SMTP_URL, PAWL_EMAIL_FROM } });
      expect(said).toMatch(
        /^PAWL_SMTP_URL: expected a URL such as smtp:\/\/user:password@host:587/,
      );
      expect(said, PAWL_SMTP_URL).not.toMatch(/s3|cret/);
    }
    const PAWL_SMTP_URL = "smtp://me:s3cret@mail.example";
    expect(refusal({ env: { PAWL_SMTP_URL } })).toBe(
      "PAWL_SMTP_URL: expected email_from beside it, got none. Say whom e-mail is from, such as " +
        "PAWL_EMAIL_FROM=pawl@example.com.",
    );
    for (const from of [
      "Pawl",
      "a@b.c, d@e.f",
      "Pawl\r\nBcc: a@b.c <a@b.c>",
      "<>",
      '"P" <a@b.c>',
    ]) {
      expect(refusal({ env: { PAWL_SMTP_URL, PAWL_EMAIL_FROM: from } }), from).toMatch(
        /^PAWL_EMAIL_FROM: expected an address such as pawl@example\.com/,
      );
    }
  });

  test("reads yes and no from the environment", () => {
    expect(load({ env: { PAWL_TOKENS_REQUIRED: "true" } }).tokens_required).toBe(true);
    expect(load({ env: { PAWL_UNSAFE: "0" } }).unsafe).toBe(false);
  });

  test("takes an empty variable for none, and leaves those of others alone", () => {
    expect(load({ env: { PAWL_PORT: "", PORT: "80", PAWL_DEBUG: "1" } }).port).toBe(7290);
  });

  test("leaves alone what a task is told, so that a command of a task can call pawl", () => {
    const told = { PAWL_PARTITION: "eu", PAWL_VALUE_REGION: "eu", PAWL_CONFIG: "{}" };
    expect(load({ env: { ...told, PAWL_PORT: "7300" } }).port).toBe(7300);
    const settings = Object.keys(load({})).map((field) => `PAWL_${field.toUpperCase()}`);
    expect(settings.filter(isTaskVariable)).toEqual([]);
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
