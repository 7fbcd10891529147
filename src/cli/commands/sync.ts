import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { SegmentsTransition, SyncTransition } from "../../work/sync/api.ts";
import type { SegmentDocument, SyncDocument } from "../../work/sync/documents.ts";
import { targetKeyOf } from "../../work/sync/spec.ts";
import { type Api, fullId, idleText, isIdLike, shortId } from "../base/api.ts";
import { omitUndefined, option, PAGE, REASON, segmentIndexOf, VERSION } from "../base/options.ts";
import { optionMissing } from "../base/project.ts";
import {
  addSubcommands,
  type CommandSubject,
  messageText,
  operation,
  optional,
  outcomeOf,
  subcommand,
} from "../base/subcommands.ts";
import { counted, note, paintState, type Terminal } from "../base/terminal.ts";
import { waitWithProgress } from "../base/waiting.ts";
import type { Cli } from "../cli.ts";
import {
  listedSegmentsText,
  overviewText,
  quarantineText,
  segmentsText,
  setAsideText,
  someSegments,
  syncEndText,
  syncLabel,
  syncsText,
  syncText,
} from "../text/sync.ts";

/** What did not pass since it was asked for, as far as it was not fetched again. */
export async function faultsIn(
  { client }: Api,
  { sync_id, accepted_at }: SegmentsTransition,
  range: Range,
): Promise<SegmentDocument[]> {
  const query = { verification: "FAILED,ERROR", ...range, limit: 200 };
  const faults: SegmentDocument[] = [];
  for await (const segment of client.each("listSegments", { params: { sync: sync_id }, query })) {
    if ((segment.verification?.at ?? "") >= accepted_at) faults.push(segment);
  }
  return faults;
}

/** Why a verification counts as failed; null when all passed. */
export function failureOfChecks(
  sync: SyncDocument,
  faults: readonly SegmentDocument[],
): PawlError | null {
  const label = syncLabel(sync);
  if (sync.verify_waiting + sync.verify_active > 0) {
    const why = sync.state === "REMOVED" ? "was removed" : "has no definition any more";
    return failed(`Sync ${label} ${why}, so it is not verified.`);
  }
  if (faults.length === 0) return null;
  const count = faults.length === 1 ? "1 segment" : `${faults.length} segments`;
  return new PawlError(
    "WORK_FAILED",
    `${count} of ${label} did not pass: ${someSegments(faults)}`,
    {
      details: { segments: faults.map(({ segment_index }) => segment_index) },
    },
  );
}

/** What waits for somebody to decide, and for nothing else. */
const ASIDE: ReadonlySet<string> = new Set(["QUARANTINED", "ABANDONED"]);

/** Shows a sync until it is whole, has caught up, or cannot go on without a person. */
export function waitForSync(cli: Cli, api: Api, sync: string): Promise<SyncDocument> {
  const since = new Date(cli.terminal.now()).toISOString();
  return watched(cli, api, sync, async (client, document) => {
    if (!isSettled(document)) return false;
    if (document.state !== "FOLLOWING" || !api.isEmbedded) return true;
    // Nobody polled the head while nothing ran, so it may have moved on.
    return document.lag_blocks === 0 && (await isPolled(client, document, since));
  });
}

async function isPolled(client: Client, sync: SyncDocument, since: string): Promise<boolean> {
  const query = { name: sync.name, limit: 200 };
  for await (const { source, looked_at } of client.each("listSyncSources", { query })) {
    if (source === sync.source) return looked_at !== null && looked_at >= since;
  }
  return true;
}

/** Shows a sync until none of its segments is to be verified any more. */
export function waitForVerified(cli: Cli, api: Api, sync: string): Promise<SyncDocument> {
  return watched(cli, api, sync, async (_client, document) => {
    const { verify_waiting, verify_active, state, defined } = document;
    return verify_waiting + verify_active === 0 || state === "REMOVED" || !defined;
  });
}

/** Blocks of a sync, both ends included. */
type Range = { from_block: number; to_block: number };

/** A sync, and segments of a range that are not complete. */
type Left = { document: SyncDocument; open: SegmentDocument[] };

/** What is left of a range when nothing of it is under way: segments that are not complete. */
export async function waitForRange(cli: Cli, api: Api, sync: string, range: Range): Promise<Left> {
  const { from_block, to_block } = range;
  const status = "PENDING,RUNNING,FAILED,QUARANTINED,ABANDONED";
  const query = { from_block, to_block, status, limit: 200 };
  let open: SegmentDocument[] = [];
  const document = await watched(cli, api, sync, async (client, { state }) => {
    open = (await client.call("listSegments", { params: { sync }, query })).items;
    return !isActing(state) || open.every((segment) => ASIDE.has(segment.status));
  });
  return { document, open };
}

function isActing(state: SyncDocument["state"]): boolean {
  return state !== "PAUSED" && state !== "REMOVED";
}

async function watched(
  cli: Cli,
  api: Api,
  sync: string,
  isOver: (client: Client, document: SyncDocument) => Promise<boolean>,
): Promise<SyncDocument> {
  const { document } = await waitWithProgress(cli, api, {
    noun: "segments",
    async look(client) {
      const seen = await client.call("getSync", { params: { sync } });
      return { document: seen, isSettled: await isOver(client, seen) };
    },
    progressOf: (seen) => progressOf(seen.document),
    isSettled: (seen) => seen.isSettled,
    again: { kept: "What is stored is kept", command: `pawl sync watch ${sync}` },
  });
  return document;
}

/** Whether a sync is where it should be, or waits for somebody to decide. */
function isSettled(sync: SyncDocument): boolean {
  if (["COMPLETE", "FOLLOWING", "REMOVED"].includes(sync.state)) return true;
  return isStuck(sync) || !sync.defined;
}

/** Whether all that is left was quarantined. */
function isStuck(sync: SyncDocument): boolean {
  const left = sync.segments_pending + sync.segments_running + sync.segments_failed;
  return sync.segments_quarantined > 0 && left === 0;
}

function progressOf(sync: SyncDocument) {
  const { lag_blocks: lag, state } = sync;
  const behind = lag === null || lag === 0 ? "" : `${counted(lag, "block")} behind`;
  return {
    total: sync.segments_total,
    done: sync.segments_complete,
    failed: sync.segments_failed + sync.segments_quarantined,
    ratePerSecond: sync.rate_blocks_per_second,
    etaMs: sync.eta_seconds === null ? null : sync.eta_seconds * 1_000,
    note: state === "PAUSED" ? "paused" : sync.to_block === null ? "not planned yet" : behind,
  };
}

/** Why a sync that nobody waits for any more counts as failed; null when all is well. */
export function failureOfSync(sync: SyncDocument): PawlError | null {
  const label = syncLabel(sync);
  if (sync.state === "REMOVED") return failed(`Sync ${label} was removed.`);
  if (isStuck(sync)) {
    return failed(
      `Sync ${label} cannot go on: ${setAsideText(sync.segments_quarantined)}; ` +
        `see \`pawl sync quarantine ${shortId(sync.sync_id)}\`.`,
    );
  }
  if (sync.defined || sync.state === "COMPLETE") return null;
  return failed(`Sync ${label} is stopped, because its definition is gone.`);
}

/** Why a range counts as failed of which some segments are left; null when none is. */
export function failureOfRange(left: Left | null): PawlError | null {
  if (left === null || left.open.length === 0) return null;
  const { document: sync, open } = left;
  const label = syncLabel(sync);
  if (!isActing(sync.state)) {
    return failed(`Sync ${label} is ${sync.state}: ${open.length} of the segments are left.`);
  }
  return failed(`Sync ${label}: ${setAsideText(open.length)}: ${someSegments(open)}`);
}

function failed(message: string): PawlError {
  return new PawlError("WORK_FAILED", message);
}

/** The sync that an id or the end of one means; the text itself when that is no part of one. */
export async function syncIdOf(client: Client, text: string): Promise<string> {
  if (!isIdLike(text)) return text;
  const status = "PENDING,RUNNING,PAUSED,COMPLETE,FOLLOWING,FAILED,REMOVED";
  const syncs = client.each("listSyncs", { query: { limit: 200, status } });
  return fullId(text, syncs, ({ sync_id }) => sync_id);
}

const SYNC: CommandSubject = {
  noun: "sync",
  description: "the sync as name@target, its id, or the short form of that",
  param: "sync",
  async find(client, text) {
    if (text.includes("@") || text.length >= 26) return text;
    const id = await syncIdOf(client, text);
    if (id !== text) return id;
    const { items } = await client.call("listSyncs", { query: { name: text, limit: 2 } });
    const [only, other] = items;
    if (only === undefined) return text;
    if (other === undefined) return only.sync_id;
    throw new PawlError(
      "INPUT_INVALID",
      `${text} has several targets: name one of them, such as ${text}@${only.target_key}.`,
      { details: { name: text } },
    );
  },
};

const CHANGE = { expected_state_version: VERSION, reason: REASON };

const PARALLEL = {
  max_parallel: option.integer("--max-parallel <n>", "segments at once", 1, 1_000),
  priority: option.integer("--priority <n>", "higher goes first", -100, 100),
};

const SEGMENT = ["<segment>", "its index, as `pawl sync quarantine` shows it"] as const;

/** The state that a change has left a sync in. */
function stateText(terminal: Terminal, changed: SyncTransition): string {
  const state = paintState(terminal, changed.state);
  return `Sync ${syncLabel(changed)} is ${state} (version ${changed.state_version}).`;
}

/** What most changes have in common. */
const CHANGED = { about: SYNC, flags: CHANGE, text: stateText };

const SYNCS = {
  add: subcommand({
    description: "add a target to a sync that is defined in code",
    argument: ["<name>", "the sync's name"],
    flags: {
      target: option.labels("--target <field=value>", "a field of the target; may be repeated"),
      from_block: option.integer(
        "--from <block>",
        "the first block (default: the definition's)",
        0,
      ),
      to_block: option.integer("--to <block>", "the last block (default: the definition's)", 0),
      ...PARALLEL,
      requestId: option.requestId("never adds a second"),
    },
    need: "definitions",
    prepare({ argument: name, fields: { target, ...rest } }) {
      if (target === undefined) throw optionMissing("--target", "fields such as network=mainnet");
      return { name, target, ...rest };
    },
    async run({ api, client, prepared: body, flags: { requestId } }) {
      const added = await client.call("addSync", { body, idempotencyKey: requestId });
      const idle = idleText(api, "it is synced");
      return outcomeOf(added, () => `Added sync ${syncLabel(added)} (${added.sync_id}).${idle}`);
    },
  }),
  remove: operation("removeSync", {
    description: "remove a target; what is stored stays, and so does the record",
    about: SYNC,
    flags: { expected_state_version: VERSION },
    text: messageText,
  }),
  list: operation("listSyncs", {
    description: "list syncs by name and target",
    flags: {
      name: option.text("--name <name>", "only the targets of this one"),
      status: option.states("--status <states>", "only these, such as failed,paused or removed"),
      source: option.text("--source <source>", "only those fetched from this"),
      target: option.labels("--target <field=value>", "only those with this; may be repeated"),
      ...PAGE,
    },
    fields: ({ flags: { target, ...query } }) => ({ ...query, ...targetQuery(target) }),
    text: syncsText,
  }),
  show: subcommand({
    description: "show a sync, its segments as a strip, and those in trouble",
    about: SYNC,
    async run({ terminal, client, ref: sync }) {
      const document = await client.call("getSync", { params: { sync } });
      const params = { sync: document.sync_id };
      const segments: SegmentDocument[] = [];
      const each = client.each("listSegments", { params, query: { limit: 200 } });
      for await (const segment of each) segments.push(segment);
      return outcomeOf({ ...document, segments }, () => syncText(terminal, document, segments));
    },
  }),
  segments: subcommand({
    description: "list the segments of a sync by their blocks, or those of all syncs that match",
    about: optional(SYNC),
    flags: {
      status: option.states("--status <states>", "only these, such as failed,abandoned"),
      name: option.text("--name <name>", "of all syncs: only those of this definition"),
      source: option.text("--source <source>", "of all syncs: only those of this source"),
      target: option.labels("--target <field=value>", "of all syncs: only those with this"),
      network: option.text(
        "--network <network>",
        "of all syncs: only those whose target has this network",
      ),
      verification: option.states(
        "--verification <states>",
        "only those verified so, such as failed",
      ),
      from: option.integer("--from <block>", "only those with a block from here on", 0),
      to: option.integer("--to <block>", "only those with a block up to here", 0),
      ...PAGE,
    },
    prepare({ subject, flags: { verification, from, to, status, limit, cursor, ...rest } }) {
      const one = omitUndefined({ verification, from_block: from, to_block: to });
      const { target, ...others } = rest;
      const many = { ...others, ...targetQuery(target) };
      refuseMixed(subject, one, many);
      return { one, many, paging: omitUndefined({ status, limit, cursor }) };
    },
    async run({ terminal, client, ref: sync, prepared: { one, many, paging } }) {
      if (sync === undefined) {
        const page = await client.call("listAllSegments", { query: { ...paging, ...many } });
        return outcomeOf(page, () => listedSegmentsText(terminal, page));
      }
      const query = { ...paging, ...one };
      const page = await client.call("listSegments", { params: { sync }, query });
      return outcomeOf(page, () => segmentsText(terminal, page));
    },
  }),
  quarantine: subcommand({
    description: "list what was quarantined because it cannot be fetched, of one sync or of all",
    about: optional(SYNC),
    flags: PAGE,
    async run({ terminal, client, ref: sync, flags: query }) {
      const page =
        sync === undefined
          ? await client.call("listQuarantine", { query })
          : await client.call("listSyncQuarantine", { params: { sync }, query });
      return outcomeOf(page, () => quarantineText(terminal, page));
    },
  }),
  overview: subcommand({
    description: "show all syncs together, those furthest behind, and their sources",
    async run({ terminal, client }) {
      const overview = await client.call("syncOverview");
      const { items: sources } = await client.call("listSyncSources");
      return outcomeOf({ ...overview, sources }, () => overviewText(terminal, overview, sources));
    },
  }),
  watch: subcommand({
    description: "show a sync's progress until it is complete or has caught up with the head",
    about: SYNC,
    need: "work",
    async run({ cli, terminal, api, ref }) {
      const document = await waitForSync(cli, api, ref);
      return outcomeOf(document, () => syncEndText(terminal, document), failureOfSync(document));
    },
  }),
  pause: operation("pauseSync", {
    ...CHANGED,
    description: "stop a sync and its segments, which keep how far they got",
  }),
  resume: operation("resumeSync", { ...CHANGED, description: "let a sync go on" }),
  retune: operation("retuneSync", {
    description: "change how many segments run at once, or the priority",
    about: SYNC,
    flags: { expected_state_version: VERSION, ...PARALLEL },
    text: stateText,
  }),
  "set-head": operation("setSyncHead", {
    description: "say where the head of a sync's source is",
    about: SYNC,
    flags: {
      expected_state_version: VERSION,
      head: option.required(
        option.integer("--head <block>", "the newest block that the source has", 0),
      ),
      reason: REASON,
    },
    text: stateText,
  }),
  retry: operation("retrySegment", {
    description: "try a quarantined segment once more",
    about: SYNC,
    argument: SEGMENT,
    params: (text) => ({ segment_index: segmentIndexOf(text) }),
    flags: CHANGE,
    text: messageText,
  }),
  exclude: operation("excludeSegment", {
    description: "let a quarantined segment stay unfetched, on record",
    about: SYNC,
    argument: SEGMENT,
    params: (text) => ({ segment_index: segmentIndexOf(text) }),
    flags: {
      expected_state_version: VERSION,
      reason: option.required(
        option.text("--reason <text>", "why it may be missing, for the record"),
      ),
    },
    text: messageText,
  }),
  verify: subcommand({
    description: "have complete segments compared with the source",
    about: SYNC,
    flags: {
      from_block: option.integer("--from <block>", "only segments with a block from here on", 0),
      to_block: option.integer("--to <block>", "only segments with a block up to here", 0),
      repair: option.switch("--repair", "fetch again at once what does not pass"),
      wait: option.wait("wait for what it finds, and fail when something does not pass"),
      expected_state_version: VERSION,
    },
    async run({ cli, terminal, api, client, ref: sync, flags: { wait }, fields: body }) {
      const params = { sync };
      const before = await client.call("getSync", { params });
      const asked = await client.call("verifySync", { params, body });
      if (wait !== true) return outcomeOf(asked, () => asked.message);
      note(terminal, asked.message);
      const { from_block = before.from_block, to_block = before.to_block ?? 0 } = body;
      const range = { from_block, to_block };
      const document = await waitForVerified(cli, api, asked.sync_id);
      const left = body.repair === true ? await waitForRange(cli, api, asked.sync_id, range) : null;
      const faults = await faultsIn(api, asked, range);
      const failure = failureOfChecks(document, faults) ?? failureOfRange(left);
      const result = left?.document ?? document;
      return outcomeOf(
        { ...asked, result, faults },
        () =>
          failure === null
            ? `Sync ${syncLabel(asked)}: ${counted(asked.segments, "segment")} ${asked.segments === 1 ? "is" : "are"} as the source has ${asked.segments === 1 ? "it" : "them"}.`
            : syncEndText(terminal, result),
        failure,
      );
    },
  }),
  repair: subcommand({
    description: "fetch exactly these blocks again, whatever is stored",
    about: SYNC,
    flags: {
      from_block: option.required(option.integer("--from <block>", "the first block", 0)),
      to_block: option.required(option.integer("--to <block>", "the last block", 0)),
      reason: REASON,
      wait: option.wait("show progress until they are stored, and fail when they cannot be"),
      expected_state_version: VERSION,
    },
    async run({ cli, terminal, api, client, ref: sync, flags: { wait }, fields: body }) {
      const asked = await client.call("repairSync", { params: { sync }, body });
      if (wait !== true) return outcomeOf(asked, () => asked.message);
      note(terminal, asked.message);
      const left = await waitForRange(cli, api, asked.sync_id, body);
      return outcomeOf(
        { ...asked, result: left.document, open: left.open },
        () => syncEndText(terminal, left.document),
        failureOfRange(left),
      );
    },
  }),
};

/** Adds the commands about syncs. */
export function addSyncCommands(sync: Command, cli: Cli): void {
  addSubcommands(sync, cli, SYNCS);
}

function targetQuery(target: Record<string, string> | undefined): { target?: string } {
  return target === undefined ? {} : { target: targetKeyOf(target) };
}

/** Options of one sync say nothing about all of them, and the other way round. */
function refuseMixed(sync: string | undefined, one: object, many: object): void {
  const [wrong] = Object.keys(sync === undefined ? one : many);
  if (wrong === undefined) return;
  const flag = `--${wrong.replace("_block", "")}`;
  throw new PawlError(
    "INPUT_INVALID",
    sync === undefined
      ? `${flag} is about the segments of one sync. Name it, or leave ${flag} out.`
      : `${flag} is about all syncs, and ${JSON.stringify(sync)} is one. Leave one of them out.`,
    { details: { option: flag } },
  );
}
