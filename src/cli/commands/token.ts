import type { Command } from "commander";
import { type Verb, VERBS } from "../../work/operation.ts";
import { PawlError } from "../../kernel/errors.ts";
import { act, type Cli } from "../cli.ts";
import { relativeTime, durationOption } from "../base/options.ts";
import { given } from "../base/omit-undefined.ts";
import { withApi } from "../base/api.ts";
import { layoutTable, note, print } from "../base/terminal.ts";

type CreateOptions = { verbs?: string; expiresIn?: number };

/**
 * Adds the commands about tokens. Without --url they work on the store itself: whoever can open it
 * needs no token, and the first token has to come from somewhere.
 */
export function addTokenCommands(program: Command, cli: Cli): void {
  const token = program.command("token").description("manage access tokens");
  token
    .command("create")
    .description("create a token; its text is shown this once")
    .argument("<principal>", "who will use it; stands in every event that the token causes")
    .option(
      "--verbs <verbs>",
      "what it may do: read, write, work, push, ddl, admin (default: read,write)",
    )
    .addOption(durationOption("--expires-in <duration>", "how long it is good for, such as 90d"))
    .action(
      act(async ({ verbs, expiresIn, ...options }: CreateOptions, principal: string) => {
        const seconds = expiresIn === undefined ? undefined : Math.ceil(expiresIn / 1_000);
        const body = given({ principal, verbs: verbsOf(verbs), expires_in_seconds: seconds });
        await withApi(cli, options, "store", async ({ client }) => {
          const created = await client.call("createToken", { body }).catch(withAdvice);
          print(cli.terminal, created, () => created.token);
          note(cli.terminal, `Keep it now: it is not shown again. Its id is ${created.token_id}.`);
        });
      }),
    );
  token
    .command("list")
    .description("list tokens")
    .action(
      act(async (options: object) => {
        await withApi(cli, options, "store", async ({ client }) => {
          const list = await client.call("listTokens");
          print(cli.terminal, list, () => listText(list.items, cli.terminal.now()));
        });
      }),
    );
  token
    .command("revoke")
    .description("end a token at once")
    .argument("<token-id>", "the token's id")
    .action(
      act(async (options: object, token_id: string) => {
        await withApi(cli, options, "store", async ({ client }) => {
          const answer = await client.call("revokeToken", { params: { token_id } });
          if (!answer.revoked) throw noSuchToken(token_id);
          print(cli.terminal, answer, () => `Revoked ${token_id}.`);
        });
      }),
    );
}

function noSuchToken(tokenId: string): PawlError {
  return new PawlError(
    "TOKEN_NOT_FOUND",
    `There is no live token ${JSON.stringify(tokenId)}. \`pawl token list\` shows those there are.`,
    { details: { token_id: tokenId } },
  );
}

/** A lost answer may have been that of a token, which then nobody has and nobody has ended. */
function withAdvice(error: unknown): never {
  if (!(error instanceof PawlError) || error.code !== "SERVER_UNREACHABLE") throw error;
  throw new PawlError(
    error.code,
    `${error.message} The token may have been made: \`pawl token list\` shows it, and ` +
      "`pawl token revoke` ends it.",
    { cause: error, details: error.details },
  );
}

function verbsOf(text = "read,write"): Verb[] {
  return text.split(",").map((name) => {
    const verb = VERBS.find((each) => each === name.trim());
    if (verb !== undefined) return verb;
    throw new PawlError(
      "INPUT_INVALID",
      `--verbs: expected some of ${VERBS.join(", ")}, got ${JSON.stringify(name)}.`,
    );
  });
}

type Listed = {
  token_id: string;
  principal: string;
  verbs: readonly string[];
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
};

function listText(tokens: readonly Listed[], now: number): string {
  if (tokens.length === 0) return "There are no tokens.";
  return layoutTable(
    [
      { heading: "ID" },
      { heading: "PRINCIPAL" },
      { heading: "VERBS" },
      { heading: "CREATED" },
      { heading: "EXPIRES" },
      { heading: "REVOKED" },
    ],
    tokens.map((token) => [
      token.token_id,
      token.principal,
      token.verbs.join(","),
      relativeTime(token.created_at, now),
      token.expires_at === null ? "never" : relativeTime(token.expires_at, now),
      relativeTime(token.revoked_at, now),
    ]),
  );
}
