import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { type Json, retryAfter, type TaskContext, type TaskResult } from "pawl";
import { fetchPage, isFlaky } from "./shop.ts";
import { placeOf } from "./warehouse.ts";

/**
 * Downloads the orders of one day and region, page by page, into a file. After each page it keeps a
 * checkpoint, so an attempt that comes after a failure or a crash goes on with the next page.
 */
export async function downloadOrders(context: TaskContext): Promise<TaskResult> {
  const { date = "", region = "" } = context.values;
  const file = placeOf(`data/raw/${date}-${region}.csv`);
  const part = placeOf(`data/parts/${date}-${region}.csv`);
  mkdirSync(placeOf("data/raw"), { recursive: true });
  mkdirSync(placeOf("data/parts"), { recursive: true });

  let { page, text } = keptPages(context.lastCheckpoint, part);
  if (page > 0) context.log(`Going on with page ${page + 1}.`, { attempt: context.attempt });
  for (let isLast = false; !isLast; page++) {
    context.signal.throwIfAborted();
    if (page > 0 && context.attempt === 1 && isFlaky(date, region)) {
      throw retryAfter(
        200,
        `The shop is busy (503) and wants to be asked again: ${date} ${region}.`,
      );
    }
    const answer = await fetchPage(date, region, page);
    text += answer.lines.map((line) => `${line}\n`).join("");
    isLast = answer.isLast;
    if (isLast) continue;
    writeFileSync(part, text);
    await context.checkpoint({ page: page + 1, length: text.length });
  }

  // The file is there as a whole or not at all, also when the machine stops at this very moment.
  writeFileSync(part, text);
  renameSync(part, file);
  return { metadata: { pages: page, bytes: text.length } };
}

/** What an earlier attempt got, if it is still there. */
function keptPages(checkpoint: Json, part: string): { page: number; text: string } {
  const { page, length } = (checkpoint ?? { page: 0, length: 0 }) as Record<string, number>;
  if (page === undefined || length === undefined || page === 0) return { page: 0, text: "" };
  const text = existsSync(part) ? readFileSync(part, "utf8") : "";
  return text.length < length ? { page: 0, text: "" } : { page, text: text.slice(0, length) };
}
