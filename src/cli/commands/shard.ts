import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Command } from "commander";
import { PawlError } from "../../kernel/errors.ts";
import { isLoopback } from "../../engine/config.ts";
import { act, type Cli } from "../cli.ts";
import { createLog } from "../base/log.ts";
import { option } from "../base/options.ts";
import { layoutFields, note, paint, print } from "../base/terminal.ts";
import { untilInterrupted } from "./start.ts";

type ServeOptions = {
  host?: string;
  port?: number;
  tokenFile?: string;
  token?: string;
  allowDdl?: true;
};

const HOST = "127.0.0.1";
const PORT = 7291;

/** Adds the command that serves a shard to other machines. */
export function addShardCommands(program: Command, cli: Cli): void {
  const shard = program.command("shard").description("serve SQLite files as shards");
  shard
    .command("serve")
    .description("serve an SQLite file as a shard, for workers and routers on other machines")
    .argument("<file>", "the SQLite file; it is made when it is not there")
    .option("--host <address>", `the address to listen on (default: ${HOST})`)
    .addOption(option.integer("--port <n>", `the port to listen on (default: ${PORT})`, 0, 65_535))
    .option("--token-file <file>", "a file with the token to ask for, instead of PAWL_SHARD_TOKEN")
    .option("--allow-ddl", "let splits change the schema of its tables")
    .action(
      act(async (options: ServeOptions, name: string) => {
        const { host = HOST, port = PORT, tokenFile } = options;
        if (options.token !== undefined) throw tokenInTheOpen();
        const file = resolve(cli.cwd, name);
        const isNew = !existsSync(file);
        const known = tokenOf(cli, tokenFile);
        if (known === null && !isLoopback(host)) throw tokenRequired(host);
        const token = known ?? randomBytes(32).toString("hex");
        const pretty = cli.terminal.stderr.isTTY === true;
        const log = createLog(cli.terminal, cli.env, { level: "info", pretty });
        const { serveShard } = await import("../base/serve-shard.ts");
        const serving = await serveShard({
          file,
          token,
          host,
          port,
          allowsDdl: options.allowDdl,
          onFailure: (error, correlation_id) =>
            log.error({ err: error, correlation_id }, "a request failed that should not"),
        });
        const { url } = serving;
        const document = { url, file, is_new: isNew, ...(known === null ? { token } : {}) };
        print(cli.terminal, document, () => {
          const fields = layoutFields([
            ["  file", isNew ? `${file} (new, empty)` : file],
            ["  token", known === null ? `${token} (made up for this run)` : "as given"],
            ["  name it", `httpShard("${url}", { token: "…" }) in shards() and in createRouter()`],
          ]);
          return `A shard listens on ${paint(cli.terminal, "bold", url)}\n${fields}`;
        });
        await untilInterrupted(cli.signal);
        note(cli.terminal, "Stopping: requests under way may finish. Once more to stop at once.");
        await serving.stop();
      }),
    );
}

/** Everybody on the machine sees the flags of a process. */
function tokenInTheOpen(): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    "--token is for talking to a server. Give the shard's own with --token-file or " +
      "PAWL_SHARD_TOKEN, where nobody else sees it.",
  );
}

/** A token that is made up with each start is of no use to other machines. */
function tokenRequired(host: string): PawlError {
  return new PawlError(
    "TOKEN_REQUIRED",
    `Listening on ${host} lets others at the shard, so it needs a token that they know. Give it ` +
      "with --token-file or PAWL_SHARD_TOKEN, or listen on 127.0.0.1.",
    { details: { host } },
  );
}

/** At least so long: it is all that keeps others from the data. */
const TOKEN_LENGTH_MIN = 16;

function tokenOf({ cwd, env }: Cli, file: string | undefined): string | null {
  const { PAWL_SHARD_TOKEN: own = "" } = env;
  const token = (file === undefined ? own : contentOf(resolve(cwd, file))).trim();
  if (token === "" && file === undefined) return null;
  const where = file === undefined ? "PAWL_SHARD_TOKEN" : file;
  if (token.length >= TOKEN_LENGTH_MIN && /^[\x21-\x7e]+$/.test(token)) return token;
  throw new PawlError(
    "CONFIG_INVALID",
    `${where}: expected a token of at least ${TOKEN_LENGTH_MIN} characters without spaces. ` +
      "`openssl rand -hex 32` makes one.",
    { details: { path: where } },
  );
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new PawlError("CONFIG_INVALID", `--token-file: ${reason}.`, {
      cause,
      details: { path: file },
    });
  }
}
