import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openHttpShard } from "../../src/shards/http/open-http-shard.ts";
import { CliProject } from "./cli-project.ts";

describe("pawl shard serve", () => {
  const TOKEN = "a-token-of-the-tests";
  let project: CliProject;
  beforeEach(() => {
    project = new CliProject();
  });
  afterEach(() => project.remove());

  type Said = { url: string; file: string; is_new: boolean; token?: string };

  /** Serves a file on a free port until it is told to stop. */
  async function serve(args: string[], env: Record<string, string> = {}) {
    const running = project.launch(
      ["shard", "serve", "a.db", "--port", "0", ...args, "--json"],
      env,
    );
    let text = "";
    running.child.stdout?.on("data", (part: Buffer) => (text += part.toString()));
    await running.said("\n}\n");
    return { running, said: JSON.parse(text) as Said };
  }

  test("serves a new file to who has the token, and stops cleanly", async () => {
    project.write("token.txt", `${TOKEN}\n`);
    const { running, said } = await serve(["--token-file", "token.txt"]);
    expect(said).toMatchObject({ is_new: true, file: expect.stringMatching(/a\.db$/) });
    expect(said.token).toBeUndefined();
    const shard = await openHttpShard({ url: said.url, token: TOKEN });
    await shard.install();
    expect(await shard.fences(["acme"])).toEqual([]);
    await shard.close();
    const stranger = await openHttpShard({ url: said.url, token: "another-token-here" });
    await expect(stranger.position()).rejects.toMatchObject({ code: "UNAUTHORIZED" });
    await stranger.close();
    running.child.kill("SIGTERM");
    expect(await running.ended).toMatchObject({ code: 0 });
  });

  test("I81: changes no schema unless it is told to", async () => {
    const env = { PAWL_SHARD_TOKEN: TOKEN };
    const guard = { plan: "p", token: 1 };
    const tables = [{ table: "items", shard_by: "tenant" }];
    const change = async (...args: string[]) => {
      const { running, said } = await serve(args, env);
      const shard = await openHttpShard({ url: said.url, token: TOKEN });
      await shard.install();
      const sql = "alter table items add column x integer";
      const error = await shard.runDdl(guard, sql, tables).catch((reason: unknown) => reason);
      await shard.close();
      running.child.kill("SIGTERM");
      await running.ended;
      return error;
    };
    expect(await change()).toMatchObject({ code: "DDL_NOT_ALLOWED" });
    // There is no such plan: it was asked for, and not refused before.
    expect(await change("--allow-ddl")).not.toMatchObject({ code: "DDL_NOT_ALLOWED" });
  });

  test("makes up a token for this machine, and takes the one of the environment", async () => {
    const first = await serve([]);
    expect(first.said.token).toMatch(/^[0-9a-f]{64}$/);
    first.running.child.kill("SIGTERM");
    await first.running.ended;
    const second = await serve([], { PAWL_SHARD_TOKEN: TOKEN });
    expect(second.said).toMatchObject({ is_new: false });
    const shard = await openHttpShard({ url: second.said.url, token: TOKEN });
    await shard.install();
    await shard.close();
  });

  test("says where it listens and how to name it", async () => {
    const running = project.launch(["shard", "serve", "a.db", "--port", "0"]);
    await running.said("createRouter()");
    running.child.kill("SIGTERM");
    const { code, stdout, stderr } = await running.ended;
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stdout).toMatch(/A shard listens on http:\/\/127\.0\.0\.1:\d+/);
    expect(stdout).toMatch(/a\.db \(new, empty\)/);
    expect(stdout).toMatch(/\(made up for this run\)/);
  });

  test("refuses in a sentence what would leave the shard open, or cannot be", async () => {
    const all = await project.refused(6, "shard", "serve", "a.db", "--host", "0.0.0.0");
    expect(all).toContain("--token-file or PAWL_SHARD_TOKEN");
    project.write("short.txt", "short");
    const short = await project.refused(2, "shard", "serve", "a.db", "--token-file", "short.txt");
    expect(short).toContain("at least 16 characters");
    const gone = await project.refused(2, "shard", "serve", "a.db", "--token-file", "gone.txt");
    expect(gone).toContain("--token-file: ENOENT");
    const flag = await project.refused(2, "shard", "serve", "a.db", "--token", TOKEN);
    expect(flag).toContain("where nobody else sees it");
    project.write("text.db", "this is no database, however long it is. ".repeat(100));
    const text = await project.refused(5, "shard", "serve", "text.db", "--port", "0");
    expect(text).toContain("file is not a database");
    const folder = await project.refused(5, "shard", "serve", "none/a.db", "--port", "0");
    expect(folder).toContain("directory does not exist");
  });

  test("says when the port is taken", async () => {
    const { said } = await serve([]);
    const port = new URL(said.url).port;
    const taken = await project.refused(4, "shard", "serve", "b.db", "--port", port);
    expect(taken).toContain("PORT_IN_USE");
  });
});
