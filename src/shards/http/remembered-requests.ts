import { createHash } from "node:crypto";
import type Database from "better-sqlite3";
import { PawlError } from "../../kernel/errors.ts";
import { StatementsAnswer, type StatementsRequest } from "./statement-protocol.ts";

/** How long the answer to a mutation is kept for somebody who sends it again. */
const KEPT_MS = 24 * 3_600_000;

const INSTALL = `
  create table if not exists _pawl_requests (
    key text primary key,
    fingerprint text not null,
    answer text not null,
    at integer not null
  ) without rowid;
  create index if not exists _pawl_requests_at on _pawl_requests (at);
`;
const FIND = "select fingerprint, answer from _pawl_requests where key = ?";
const KEEP = "insert into _pawl_requests (key, fingerprint, answer, at) values (?, ?, ?, ?)";
/** A few with each new one, so that no write pays for many. */
const FORGET = `
  delete from _pawl_requests
  where key in (select key from _pawl_requests where at < ? order by at limit 10)
`;

/** The mutations that a shard has carried out, kept in the transaction that did so. */
export class RememberedRequests {
  readonly #find: Database.Statement<[string], { fingerprint: string; answer: string }>;
  readonly #keep: Database.Statement<[string, string, string, number]>;
  readonly #forget: Database.Statement<[number]>;

  constructor(db: Database.Database) {
    db.exec(INSTALL);
    this.#find = db.prepare(FIND);
    this.#keep = db.prepare(KEEP);
    this.#forget = db.prepare(FORGET);
  }

  /** The answer to a request that was carried out. Throws `IDEMPOTENCY_KEY_REUSED` for another one. */
  find(key: string, fingerprint: string): StatementsAnswer | null {
    const found = this.#find.get(key);
    if (found === undefined) return null;
    if (found.fingerprint === fingerprint) return StatementsAnswer.parse(JSON.parse(found.answer));
    throw new PawlError(
      "IDEMPOTENCY_KEY_REUSED",
      `The key ${JSON.stringify(key)} was used for other statements. Use a new one.`,
      { details: { idempotency_key: key } },
    );
  }

  /** Keeps an answer; call it in the transaction that it is about. */
  keep(key: string, fingerprint: string, answer: StatementsAnswer, nowMs: number): void {
    this.#keep.run(key, fingerprint, JSON.stringify(answer), nowMs);
    this.#forget.run(nowMs - KEPT_MS);
  }
}

/** What makes two requests the same: all but the epoch, which a repeat may have learnt anew. */
export function fingerprintOf({ tenant, statements }: StatementsRequest): string {
  return createHash("sha256")
    .update(JSON.stringify([tenant, statements]))
    .digest("hex");
}
