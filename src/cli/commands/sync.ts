import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { SyncTransition } from "../../work/sync/api.ts";
import type { SegmentDocument } from "../../work/sync/documents.ts";
import { targetKeyOf } from "../../work/sync/spec.ts";
import type { Cli } from "../cli.ts";
import { idleText } from "../base/api.ts";
import { omitUndefined } from "../base/omit-undefined.ts";
import { option, PAGE, REASON, segmentIndexOf, VERSION } from "../base/options.ts";
import { optionMissing } from "../base/project.ts";
import { fullId, isIdLike } from "../base/short-id.ts";
import {
  addSubcommands,
  messageText,
  operation,
  optional,
  outcomeOf,
  subcommand,
  type CommandSubject,
} from "../base/subcommands.ts";
import { note, paintState, type Terminal } from "../base/terminal.ts";
import {
  syncEndText,
  listedSegmentsText,
  overviewText,
  quarantineText,
  segmentsText,
  syncLabel,
  syncsText,
  syncText,
} from "../text/sync.ts";
import {
  failureOfChecks,
  failureOfRange,
  failureOfSync,
  faultsIn,
  waitForRange,
  waitForSync,
  waitForVerified,
} from "./wait-for-sync.ts";

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
            ? `Sync ${syncLabel(asked)}: ${asked.segments} segments are as the source has them.`
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
