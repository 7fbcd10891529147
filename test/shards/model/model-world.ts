import { PawlError } from "../../../src/kernel/errors.ts";
import type { ClaimedSplit, SplitStep, StepAnswer } from "../../../src/work/shard/step-protocol.ts";
import {
  begin,
  commit,
  isLocked,
  refusalOf,
  rollback,
  rowFor,
  rowsOf,
  write,
} from "./model-application.ts";
import type { ModelData, ModelRow } from "./model-data.ts";

/** The tenant that is split off. */
export const TENANT = "t";
/** The one table. */
export const TABLE = "rows";

/** What a transaction does with a row: one more, a new one, or none. */
export type Op = { op: "add" | "insert" | "delete"; key: string };

/** A transaction of the application: what it does, and whether it takes that back. */
export type Transaction = { ops: Op[]; isTakenBack?: boolean };

/** Somebody who writes one transaction after the other, where its route leads. */
export type Writer = {
  tenant: string;
  route: { shard: Side; epoch: number };
  left: Transaction[];
  at: { shard: Side; xid: number; done: number } | null;
};

/** The two shards. */
export type Side = "source" | "target";

/** A call of a coordinator that was frozen before it was made. */
export type Frozen = { side: Side | "ledger"; method: string; args: unknown[]; attempt: number };

/** Everything there is, as plain data. */
export type World = {
  source: ModelData;
  target: ModelData;
  ledger: { attempt: number; version: number; cutover: number | null; rollback: number | null };
  caughtUp: boolean;
  writers: Writer[];
  /** What was acknowledged, by table and key. */
  truth: Record<string, string>;
  steps: SplitStep[];
  /** How often each may still happen: a kill, a fence that runs out, a server that does not answer. */
  left: { kills: number; freezes: number; expiries: number; losses: number; timeouts: number };
  frozen: Frozen | null;
  /** What broken variants remember. */
  notes: Record<string, string>;
};

/** Where the tenant is written by the commit records. */
export function ownerOf({ ledger }: World): Side {
  return ledger.cutover !== null && ledger.rollback === null ? "target" : "source";
}

/** Whether a writer could do its next thing. Doing it is `advanceWriter`. */
export function canAdvance(world: World, writer: Writer): boolean {
  const next = writer.left[0];
  if (next === undefined) return false;
  if (writer.at === null) return wayIn(world, writer) !== null;
  const op = next.ops[writer.at.done];
  return op === undefined || !isLocked(world[writer.at.shard], writer.at.xid, TABLE, op.key);
}

/** Does a writer's next thing: enters, writes a row, or commits. */
export function advanceWriter(world: World, writer: Writer): void {
  const [next] = writer.left;
  if (next === undefined) throw new Error("The writer has nothing left.");
  if (writer.at === null) {
    const route = wayIn(world, writer);
    if (route === null) throw new Error("The writer cannot enter.");
    writer.route = route;
    writer.at = { shard: route.shard, xid: begin(world[route.shard], writer.tenant), done: 0 };
    return;
  }
  const data = world[writer.at.shard];
  const { xid } = writer.at;
  const op = next.ops[writer.at.done];
  if (op !== undefined) {
    const row = rowFor(data, xid, TABLE, op.key);
    write(data, xid, TABLE, op.key, after(op, row, writer.tenant));
    writer.at.done += 1;
    return;
  }
  if (next.isTakenBack === true) rollback(data, xid);
  else commit(data, xid);
  if (next.isTakenBack !== true && writer.tenant === TENANT) {
    for (const each of next.ops) acknowledge(world, each);
  }
  writer.left.shift();
  writer.at = null;
}

/** Where a writer gets in: where its route leads, or where that shard says; null when neither lets it. */
function wayIn(world: World, { tenant, route }: Writer): Writer["route"] | null {
  let at = route;
  for (let tries = 0; tries < 3; tries++) {
    const refusal = refusalOf(world[at.shard], tenant, at.epoch);
    if (refusal === null) return at;
    if (refusal === "closed") return null;
    at = refusal as Writer["route"];
  }
  return null;
}

function after({ op, key }: Op, row: ModelRow | null, tenant: string): ModelRow | null {
  if (op === "delete") return null;
  const n = op === "insert" ? 1 : Number(row?.["n"] ?? 0) + 1;
  return { key, tenant, n: String(n) };
}

function acknowledge({ truth }: World, { op, key }: Op): void {
  const name = `${TABLE} ${key}`;
  if (op === "delete") delete truth[name];
  else truth[name] = op === "insert" ? "1" : String(Number(truth[name] ?? 0) + 1);
}

/** What the ledger answers to a word of an attempt, after it has looked at the gate. */
export function answerOf(
  world: World,
  attempt: number,
  record: "caught_up" | "commit" | null,
  step: SplitStep,
): StepAnswer {
  const { ledger } = world;
  if (attempt !== ledger.attempt) throw new PawlError("LEASE_LOST", "Another attempt is current.");
  if (record === "caught_up") world.caughtUp = true;
  if (record === "commit") {
    const field = step === "cutover" ? "cutover" : "rollback";
    if (ledger[field] === null) {
      checkGate(world);
      ledger.version += 1;
      ledger[field] = ledger.version;
    }
    return { status: "current", stop: false, routing_version: ledger[field] };
  }
  const stop = record === "caught_up" || step === "reverse";
  return { status: "current", stop, routing_version: null };
}

/** What is known to hold was broken. */
export class Broken extends Error {
  override readonly name = "Broken";
}

/** I55: what must be so when the commit record is made. */
function checkGate(world: World): void {
  const [from, to]: [Side, Side] =
    ownerOf(world) === "source" ? ["source", "target"] : ["target", "source"];
  const rows = JSON.stringify([rowsOf(world[from], TENANT), rowsOf(world[to], TENANT)]);
  if (JSON.stringify(sorted(world[from])) !== JSON.stringify(sorted(world[to]))) {
    throw new Broken(`I55 the shards differ at the commit record: ${rows}`);
  }
  if (world[from].open.some(({ tenant }) => tenant === TENANT)) {
    throw new Broken("I55 a write is under way at the commit record");
  }
  if (world[from].fences[TENANT]?.state !== "held") {
    throw new Broken("I55 the fence is not held at the commit record");
  }
}

/** I53 and I54: what must be so at every moment. */
export function checkWorld(world: World): void {
  const owner = world[ownerOf(world)];
  const found = JSON.stringify(sorted(owner));
  const truth = JSON.stringify(Object.entries(world.truth).toSorted(byName));
  if (found !== truth) throw new Broken(`I54 ${owner.name} has ${found}, acknowledged is ${truth}`);
  const fences = [world.source.fences[TENANT], world.target.fences[TENANT]];
  const here = fences.filter(
    (fence) => fence !== undefined && fence.state !== "moved" && fence.state !== "incoming",
  );
  if (here.length > 1) {
    throw new Broken(`I53 both shards serve: ${here.map((fence) => fence?.state).join(", ")}`);
  }
}

function sorted(data: ModelData): [string, string][] {
  return Object.entries(rowsOf(data, TENANT)).toSorted(byName);
}

function byName([a]: [string, string], [b]: [string, string]): number {
  return a < b ? -1 : 1;
}

/** The step that a coordinator is given. */
export function claimed(world: World, step: SplitStep): ClaimedSplit {
  return {
    work: "split",
    split_id: "plan",
    step,
    n: 1,
    source: "source",
    target: "target",
    tenants: [TENANT],
    tables: [{ table: TABLE, shard_by: "tenant" }],
    epochs: [1],
    routing_version_cutover: world.ledger.cutover,
    routing_version_rollback: world.ledger.rollback,
    lag_limit_ms: 1_000,
    fence_wait_ms: 1_000,
    fence_hold_ms: 1_000_000,
    ddl: null,
  };
}
