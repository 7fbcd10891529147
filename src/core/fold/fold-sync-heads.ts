import { assert, present } from "../assert.ts";
import type { SyncSourceRow } from "../rows/sync-rows.ts";
import type { Folding } from "./fold.ts";

/** Most hashes of blocks that are kept of a source, and most rewrites. */
const ANCHORS_MAX = 128;
const REWRITES_KEPT = 32;

const syncHeadMoved: Folding<"SyncHeadMoved"> = {
  subject: () => 0,
  touches: ({ name, source }) => [["syncSources", [name, source]]],
  apply(rows, { data, pos, occurred_at }) {
    const { name, source, n, head, anchor } = data;
    const before = rows.syncSources.get(name, source);
    assert(n === (before?.moves ?? 0) + 1, "moves of a head are numbered");
    // Where less finality is asked for since, more is safe under the same head.
    assert(before === null || head >= before.head, "a head that moves moves on");
    rows.syncSources.put({
      name,
      source,
      head,
      head_at: occurred_at,
      moves: n,
      anchors: withAnchor(before?.anchors ?? [], anchor),
      rewrites: before?.rewrites ?? 0,
      recent_rewrites: before?.recent_rewrites ?? [],
      row_version: pos,
    });
  },
};

/** The anchors with one more, if it is newer than all of them. */
function withAnchor(
  anchors: SyncSourceRow["anchors"],
  anchor: SyncSourceRow["anchors"][number] | null,
): SyncSourceRow["anchors"] {
  const isNewer = anchor !== null && anchor.block > (anchors.at(-1)?.block ?? -1);
  return isNewer ? thinned([...anchors, anchor]) : anchors;
}

/**
 * Leaves out an anchor when there are too many: of the older half the one that is missed least, so
 * that they lie the closer the newer they are, and however deep a fork is, one is not far below it.
 */
function thinned(anchors: SyncSourceRow["anchors"]): SyncSourceRow["anchors"] {
  if (anchors.length <= ANCHORS_MAX) return anchors;
  const newest = blockAt(anchors, anchors.length - 1);
  let least = Number.POSITIVE_INFINITY;
  let at = 1;
  for (let index = 1; index < ANCHORS_MAX / 2; index++) {
    const below = blockAt(anchors, index - 1);
    const missed = (blockAt(anchors, index + 1) - below) / (newest - below);
    if (missed < least) [least, at] = [missed, index];
  }
  return anchors.filter((_, index) => index !== at);
}

function blockAt(anchors: SyncSourceRow["anchors"], index: number): number {
  return present(anchors[index], "the place is among the anchors").block;
}

const syncRewritten: Folding<"SyncRewritten"> = {
  subject: () => 0,
  touches: ({ name, source }) => [["syncSources", [name, source]]],
  apply(rows, { data, pos, occurred_at }) {
    const { name, source, n, fork_block, head, anchor } = data;
    const before = present(rows.syncSources.get(name, source), "what is rewritten was seen before");
    assert(n === before.rewrites + 1, "rewrites are numbered");
    const rewrite = { n, fork_block, at: occurred_at };
    const anchors = before.anchors.filter(({ block }) => block <= fork_block);
    rows.syncSources.put({
      ...before,
      head,
      head_at: occurred_at,
      anchors: withAnchor(anchors, anchor ?? null),
      rewrites: n,
      recent_rewrites: [...before.recent_rewrites, rewrite].slice(-REWRITES_KEPT),
      row_version: pos,
    });
  },
};

const syncHeadSet: Folding<"SyncHeadSet"> = {
  subject: () => 0,
  touches: ({ name, source }) => [["syncSources", [name, source]]],
  apply(rows, { data, pos, occurred_at }) {
    const { name, source, n, head, cut } = data;
    const before = rows.syncSources.get(name, source);
    assert(n === (before?.moves ?? 0) + 1, "moves of a head are numbered");
    const rewrites = before?.rewrites ?? 0;
    assert(cut === null || cut.rewrite === rewrites + 1, "rewrites are numbered");
    const recent = before?.recent_rewrites ?? [];
    const added =
      cut === null
        ? []
        : [{ n: cut.rewrite, fork_block: head, at: occurred_at, cut_from: cut.from }];
    rows.syncSources.put({
      name,
      source,
      head,
      head_at: occurred_at,
      moves: n,
      anchors: (before?.anchors ?? []).filter(({ block }) => block <= head),
      rewrites: cut?.rewrite ?? rewrites,
      recent_rewrites: [...recent, ...added].slice(-REWRITES_KEPT),
      row_version: pos,
    });
  },
};

/** The foldings of heads of sources. */
export const HEAD_FOLDS = {
  SyncHeadMoved: syncHeadMoved,
  SyncHeadSet: syncHeadSet,
  SyncRewritten: syncRewritten,
};
