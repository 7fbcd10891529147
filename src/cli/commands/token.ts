import type { Command } from "commander";
import { PawlError } from "../../kernel/errors.ts";
import { suggestion } from "../../kernel/message-text.ts";
import { type Verb, VERBS } from "../../work/operation.ts";
import type { Cli } from "../cli.ts";
import { option, relativeTime } from "../base/options.ts";
import { addSubcommands, operation, outcomeOf, subcommand } from "../base/subcommands.ts";
import { layoutTable } from "../base/terminal.ts";

const TOKENS = {
  create: subcommand({
    description: "create a token; its text is shown this once",
    argument: ["<principal>", "who will use it; stands in every event that the token causes"],
    flags: {
      verbs: option.text(
        "--verbs <verbs>",
        "what it may do: read, write, work, push, ddl, admin (default: read,write)",
      ),
      expires_in_seconds: option.seconds(
        "--expires-in <duration>",
        "how long it is good for, such as 90d",
      ),
    },
    need: "store",
    prepare: ({ argument, flags }) => ({
      principal: argument,
      ...flags,
      verbs: verbsOf(flags.verbs),
    }),
    async run({ client, prepared: body }) {
      const created = await client.call("createToken", { body }).catch(withAdvice);
      return {
        document: created,
        text: () => created.token,
        note: `Keep it now: it is not shown again. Its id is ${created.token_id}.`,
      };
    },
  }),
  list: operation("listTokens", {
    description: "list tokens",
    need: "store",
    text(terminal, { items }) {
      if (items.length === 0) return "There are no tokens.";
      const now = terminal.now();
      return layoutTable(items, [
        ["ID", ({ token_id }) => token_id],
        ["PRINCIPAL", ({ principal }) => principal],
        ["VERBS", ({ verbs }) => verbs.join(",")],
        ["CREATED", ({ created_at }) => relativeTime(created_at, now)],
        [
          "EXPIRES",
          (each) => (each.expires_at === null ? "never" : relativeTime(each.expires_at, now)),
        ],
        ["REVOKED", ({ revoked_at }) => relativeTime(revoked_at, now)],
      ]);
    },
  }),
  revoke: subcommand({
    description: "end a token at once",
    argument: ["<token-id>", "the token's id"],
    need: "store",
    async run({ client, argument: token_id }) {
      const answer = await client.call("revokeToken", { params: { token_id } });
      if (!answer.revoked) throw noSuchToken(token_id);
      return outcomeOf(answer, () => `Revoked ${token_id}.`);
    },
  }),
};

/**
 * Adds the commands about tokens. Without --url they work on the store itself: whoever can open it
 * needs no token, and the first token has to come from somewhere.
 */
export function addTokenCommands(program: Command, cli: Cli): void {
  const token = program.command("token").description("manage access tokens");
  addSubcommands(token, cli, TOKENS);
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
      `--verbs: expected some of ${VERBS.join(", ")}, got ${JSON.stringify(name)}` +
        `${suggestion(name, VERBS)}.`,
    );
  });
}
