import type { Command } from "commander";
import type { SegmentsTransition } from "../../core/api/sync-change-operations.ts";
import type { SegmentDocument, SyncDocument } from "../../core/api/sync-documents.ts";
import { PawlError } from "../../core/errors.ts";
import { act, type Cli, type GlobalOptions } from "../cli.ts";
import { given } from "../given.ts";
import { integerOption } from "../option-values.ts";
import { type Api, withApi } from "../reach-api.ts";
import { syncRefOf } from "../short-id.ts";
import { syncLabel } from "../sync-text.ts";
import { note, print } from "../terminal.ts";
import {
  endText,
  failureOfRange,
  namesOf,
  type Range,
  waitForRange,
  waitForVerified,
} from "../wait-for-sync.ts";
import { versionOption } from "./schedule-define.ts";
import { SYNC_ARGUMENT } from "./sync-show.ts";

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
