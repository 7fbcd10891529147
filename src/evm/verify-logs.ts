import { RangeTooLarge } from "../define/source-errors.ts";
import type { VerifyResult } from "../define/sync-context.ts";
import type { BlockRange } from "./evm-node.ts";

/** How a range is looked at again. */
export type VerifyLogsOptions = {
  /** Whether what is read is held against the headers of the blocks. */
  isChecked: boolean;
  /** Most blocks to read at once. */
  sizeMax: number;
  /** How many logs the source has in a range; throws when it cannot say for certain. */
  read: (range: BlockRange) => Promise<number>;
  /** How many logs are stored of a range, if that is known. */
  stored: ((range: BlockRange) => Promise<number>) | null;
  /** Told after each part, up to which block all is well. */
  passed: (block: number) => Promise<void>;
};

/** Counts the logs of a range anew, in parts that the source answers, and compares with the store. */
export async function verifyLogs(
  { from, to }: BlockRange,
  { isChecked, sizeMax, read, stored, passed }: VerifyLogsOptions,
): Promise<VerifyResult> {
  if (!isChecked && stored === null) {
    return { ok: true, note: "Nothing was compared: there is neither a check nor a count." };
  }
  let total = 0;
  let size = sizeMax;
  for (let start = from; start <= to; ) {
    const part = { from: start, to: Math.min(to, start + size - 1) };
    const found = await read(part).catch((error: unknown) => {
      size = smallerSize(error, part);
      return null;
    });
    if (found === null) continue;
    const kept = stored === null ? found : await stored(part);
    if (kept !== found) {
      const blocks = `Blocks ${part.from} to ${part.to}`;
      return { ok: false, note: `${blocks} have ${found} logs, but ${kept} are stored.` };
    }
    total += found;
    start = part.to + 1;
    await passed(part.to);
  }
  const checked = stored === null ? "at the source; nothing says how many are stored" : "stored";
  const logs = isChecked ? `${total} logs, as the headers announce,` : `${total} logs`;
  return { ok: true, note: `${logs} are ${checked}.` };
}

/** What to ask for after a refusal: what the source suggests if that is less, else half. */
function smallerSize(error: unknown, { from, to }: BlockRange): number {
  const size = to - from + 1;
  if (!(error instanceof RangeTooLarge) || size === 1) throw error;
  const { suggestedSize } = error;
  return suggestedSize !== null && suggestedSize < size ? suggestedSize : Math.ceil(size / 2);
}
