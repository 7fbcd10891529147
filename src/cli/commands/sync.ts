import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import type { SyncTransition, SegmentsTransition } from "../../work/sync/api.ts";
import { PawlError } from "../../kernel/errors.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../base/omit-undefined.ts";
import { integerOption, labelsOption } from "../base/options.ts";
import { withApi, type Api } from "../base/api.ts";
import { syncRefOf, paintState, print, note } from "../base/terminal.ts";
import { syncLabel } from "../text/sync.ts";
import { versionOption } from "./schedule.ts";
import { SYNC_ARGUMENT } from "./sync-show.ts";
import type { SegmentDocument, SyncDocument } from "../../work/sync/documents.ts";
import {
  endText,
  failureOfRange,
  namesOf,
  type Range,
  waitForRange,
  waitForVerified,
} from "../wait/sync.ts";
import { optionMissing } from "../base/project.ts";

type ChangeOptions = GlobalOptions & { reason?: string; expectedStateVersion?: number };

type RetuneOptions = GlobalOptions & {
  maxParallel?: number;
  priority?: number;
  expectedStateVersion?: number;
};

/** Adds the commands that change syncs and decide about what was set aside. */
export function addSyncChangeCommands(sync: Command, cli: Cli): void {
  changeCommand(sync, "pause", "stop a sync and its segments, which keep how far they got")
    .option("--reason <text>", "why, for the record")
    .action(
      act(async (all: ChangeOptions, text: string) => {
        const { body, options } = bodyOf(all);
        await change(cli, options, text, (client, target) =>
          client.call("pauseSync", { ...target, body }),
        );
      }),
    );
  changeCommand(sync, "resume", "let a sync go on")
    .option("--reason <text>", "why, for the record")
    .action(
      act(async (all: ChangeOptions, text: string) => {
        const { body, options } = bodyOf(all);
        await change(cli, options, text, (client, target) =>
          client.call("resumeSync", { ...target, body }),
        );
      }),
    );
  changeCommand(sync, "retune", "change how many segments run at once, or the priority")
    .addOption(integerOption("--max-parallel <n>", "segments at once", 1, 1_000))
    .addOption(integerOption("--priority <n>", "higher goes first", -100, 100))
    .action(
      act(async (all: RetuneOptions, text: string) => {
        const { maxParallel, priority, expectedStateVersion, ...options } = all;
        const body = given({
          max_parallel: maxParallel,
          priority,
          expected_state_version: expectedStateVersion,
        });
        await change(cli, options, text, (client, target) =>
          client.call("retuneSync", { ...target, body }),
        );
      }),
    );
  changeCommand(sync, "set-head", "say where the head of a sync's source is")
    .addOption(
      integerOption(
        "--head <block>",
        "the newest block that the source has",
        0,
      ).makeOptionMandatory(),
    )
    .option("--reason <text>", "why, for the record")
    .action(
      act(async ({ head, ...all }: ChangeOptions & { head: number }, text: string) => {
        const { body, options } = bodyOf(all);
        await change(cli, options, text, (client, target) =>
          client.call("setSyncHead", { ...target, body: { ...body, head } }),
        );
      }),
    );
  addSegmentCommands(sync, cli);
}

function bodyOf({ reason, expectedStateVersion, ...options }: ChangeOptions) {
  const body = given({ reason, expected_state_version: expectedStateVersion });
  return { body, options };
}

function changeCommand(sync: Command, name: string, description: string): Command {
  return sync
    .command(name)
    .description(description)
    .argument("<sync>", SYNC_ARGUMENT)
    .addOption(versionOption());
}

/** Changes a sync by `send` and says what state it is in now. */
async function change(
  cli: Cli,
  options: GlobalOptions,
  text: string,
  send: (client: Client, target: { params: { sync: string } }) => Promise<SyncTransition>,
): Promise<void> {
  await withApi(cli, options, "rows", async ({ client }) => {
    const changed = await send(client, { params: { sync: await syncRefOf(client, text) } });
    print(cli.terminal, changed, () => {
      const state = paintState(cli.terminal, changed.state);
      return `Sync ${syncLabel(changed)} is ${state} (version ${changed.state_version}).`;
    });
  });
}

function indexOf(text: string): number {
  const index = /^\d{1,15}$/.test(text) ? Number(text) : -1;
  if (index >= 0) return index;
  throw new PawlError(
    "INPUT_INVALID",
    `Expected the index of a segment, such as 12, got ${JSON.stringify(text)}.`,
    { details: { segment: text } },
  );
}

function addSegmentCommands(sync: Command, cli: Cli): void {
  changeCommand(sync, "retry", "try a segment that was set aside once more")
    .argument("<segment>", "its index, as `pawl sync quarantine` shows it")
    .option("--reason <text>", "why, for the record")
    .action(
      act(async (all: ChangeOptions, text: string, index: string) => {
        const { body, options } = bodyOf(all);
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { sync: await syncRefOf(client, text), segment_index: indexOf(index) };
          const changed = await client.call("retrySegment", { params, body });
          print(cli.terminal, changed, () => changed.message);
        });
      }),
    );
  changeCommand(sync, "exclude", "let a segment that was set aside stay unfetched, on record")
    .argument("<segment>", "its index, as `pawl sync quarantine` shows it")
    .requiredOption("--reason <text>", "why it may be missing, for the record")
    .action(
      act(async (all: ChangeOptions & { reason: string }, text: string, index: string) => {
        const { reason, expectedStateVersion, ...options } = all;
        const body = { reason, ...given({ expected_state_version: expectedStateVersion }) };
        await withApi(cli, options, "rows", async ({ client }) => {
          const params = { sync: await syncRefOf(client, text), segment_index: indexOf(index) };
          const changed = await client.call("excludeSegment", { params, body });
          print(cli.terminal, changed, () => changed.message);
        });
      }),
    );
}

type CheckOptions = GlobalOptions & {
  from?: number;
  to?: number;
  wait?: boolean;
  expectedStateVersion?: number;
};

/** Adds the commands that make sure of what is stored. */
export function addSyncCheckCommands(sync: Command, cli: Cli): void {
  sync
    .command("verify")
    .description("have complete segments compared with the source")
    .argument("<sync>", SYNC_ARGUMENT)
    .addOption(integerOption("--from <block>", "only segments with a block from here on", 0))
    .addOption(integerOption("--to <block>", "only segments with a block up to here", 0))
    .option("--repair", "fetch again at once what does not pass")
    .option("--wait", "wait for what it finds, and fail when something does not pass")
    .addOption(versionOption())
    .action(
      act((options: CheckOptions & { repair?: boolean }, text: string) =>
        verify(cli, options, text),
      ),
    );
  sync
    .command("repair")
    .description("fetch exactly these blocks again, whatever is stored")
    .argument("<sync>", SYNC_ARGUMENT)
    .addOption(integerOption("--from <block>", "the first block", 0).makeOptionMandatory())
    .addOption(integerOption("--to <block>", "the last block", 0).makeOptionMandatory())
    .option("--reason <text>", "why, for the record")
    .option("--wait", "show progress until they are stored, and fail when they cannot be")
    .addOption(versionOption())
    .action(
      act((options: CheckOptions & { reason?: string } & RangeFlags, text: string) =>
        repair(cli, options, text),
      ),
    );
}

type RangeFlags = { from: number; to: number };

async function verify(
  cli: Cli,
  all: CheckOptions & { repair?: boolean },
  text: string,
): Promise<void> {
  const { from, to, repair: isRepaired, wait, expectedStateVersion, ...options } = all;
  await withApi(cli, options, wait === true ? "work" : "rows", async (api) => {
    const params = { sync: await syncRefOf(api.client, text) };
    const before = await api.client.call("getSync", { params });
    const body = given({
      from_block: from,
      to_block: to,
      repair: isRepaired,
      expected_state_version: expectedStateVersion,
    });
    const asked = await api.client.call("verifySync", { params, body });
    if (wait !== true) {
      print(cli.terminal, asked, () => asked.message);
      return;
    }
    note(cli.terminal, asked.message);
    const range = { from: from ?? before.from_block, to: to ?? before.to_block ?? 0 };
    const document = await waitForVerified(cli, api, asked.sync_id);
    const left = isRepaired === true ? await waitForRange(cli, api, asked.sync_id, range) : null;
    const faults = await faultsIn(api, asked, range);
    const failure = failureOfChecks(document, faults) ?? failureOfRange(left);
    const result = left?.document ?? document;
    print(cli.terminal, { ...asked, result, faults }, () =>
      failure === null
        ? `Sync ${syncLabel(asked)}: ${asked.segments} segments are as the source has them.`
        : endText(cli.terminal, result),
    );
    if (failure !== null) throw failure;
  });
}

/** What did not pass since it was asked for, as far as it was not fetched again. */
async function faultsIn(
  { client }: Api,
  { sync_id, accepted_at }: SegmentsTransition,
  { from, to }: Range,
): Promise<SegmentDocument[]> {
  const query = { verification: "FAILED,ERROR", from_block: from, to_block: to, limit: 200 };
  const faults: SegmentDocument[] = [];
  for await (const segment of client.each("listSegments", { params: { sync: sync_id }, query })) {
    if ((segment.verification?.at ?? "") >= accepted_at) faults.push(segment);
  }
  return faults;
}

function failureOfChecks(sync: SyncDocument, faults: readonly SegmentDocument[]): PawlError | null {
  const label = syncLabel(sync);
  if (sync.verify_waiting + sync.verify_active > 0) {
    const why = sync.state === "REMOVED" ? "was removed" : "has no definition any more";
    return new PawlError("WORK_FAILED", `Sync ${label} ${why}, so nobody verifies it.`);
  }
  if (faults.length === 0) return null;
  const count = faults.length === 1 ? "1 segment" : `${faults.length} segments`;
  return new PawlError("WORK_FAILED", `${count} of ${label} did not pass: ${namesOf(faults)}`, {
    details: { segments: faults.map(({ segment_index }) => segment_index) },
  });
}

async function repair(
  cli: Cli,
  all: CheckOptions & { reason?: string } & RangeFlags,
  text: string,
): Promise<void> {
  const { from, to, reason, wait, expectedStateVersion, ...options } = all;
  await withApi(cli, options, wait === true ? "work" : "rows", async (api) => {
    const params = { sync: await syncRefOf(api.client, text) };
    const rest = given({ reason, expected_state_version: expectedStateVersion });
    const body = { from_block: from, to_block: to, ...rest };
    const asked = await api.client.call("repairSync", { params, body });
    if (wait !== true) {
      print(cli.terminal, asked, () => asked.message);
      return;
    }
    note(cli.terminal, asked.message);
    const left = await waitForRange(cli, api, asked.sync_id, { from, to });
    print(cli.terminal, { ...asked, result: left.document, open: left.open }, () =>
      endText(cli.terminal, left.document),
    );
    const failure = failureOfRange(left);
    if (failure !== null) throw failure;
  });
}

type AddOptions = GlobalOptions & {
  target?: Record<string, string>;
  from?: number;
  to?: number;
  maxParallel?: number;
  priority?: number;
  requestId?: string;
};

/** Adds the commands that add and remove targets of syncs. */
export function addSyncDefineCommands(sync: Command, cli: Cli): void {
  sync
    .command("add")
    .description("add a target to a sync that is defined in code")
    .argument("<name>", "the sync's name")
    .addOption(labelsOption("--target <field=value>", "a field of the target; may be repeated"))
    .addOption(integerOption("--from <block>", "the first block (default: the definition's)", 0))
    .addOption(integerOption("--to <block>", "the last block (default: the definition's)", 0))
    .addOption(integerOption("--max-parallel <n>", "segments at once", 1, 1_000))
    .addOption(integerOption("--priority <n>", "higher goes first", -100, 100))
    .option("--request-id <text>", "a name for the request; the same name never adds a second")
    .action(act((options: AddOptions, name: string) => add(cli, options, name)));
  sync
    .command("remove")
    .description("remove a target; what is stored stays, and so does the record")
    .argument("<sync>", SYNC_ARGUMENT)
    .addOption(versionOption())
    .action(
      act(async (all: GlobalOptions & { expectedStateVersion?: number }, text: string) => {
        const { expectedStateVersion, ...options } = all;
        await withApi(cli, options, "rows", async ({ client }) => {
          const removed = await client.call("removeSync", {
            params: { sync: await syncRefOf(client, text) },
            query: given({ expected_state_version: expectedStateVersion }),
          });
          print(cli.terminal, removed, () => removed.message);
        });
      }),
    );
}

async function add(cli: Cli, all: AddOptions, name: string): Promise<void> {
  const { target, from, to, maxParallel, priority, requestId, ...options } = all;
  if (target === undefined) throw optionMissing("--target", "fields such as network=mainnet");
  const range = { from_block: from, to_block: to };
  const body = { name, target, ...given({ ...range, max_parallel: maxParallel, priority }) };
  await withApi(cli, options, "definitions", async ({ client, isEmbedded }) => {
    const added = await client.call("addSync", { body, idempotencyKey: requestId });
    print(cli.terminal, added, () => {
      const idle = isEmbedded
        ? "\nNo server is running; it is synced while one does, see `pawl start`."
        : "";
      return `Added sync ${syncLabel(added)} (${added.sync_id}).${idle}`;
    });
  });
}
