import type { Asking } from "./json-rpc.ts";
import { sourceUnavailable } from "../define/source-errors.ts";
import type { BlockRange, EvmNode } from "./evm-node.ts";
import type { NodeHeader } from "./node-log.ts";

/** About 20 MB. Targets of one source ask for the same blocks at about the same time. */
const KEPT_MAX = 20_000;

/** Reads headers that follow from one another, and keeps them for the next target of the source. */
export interface HeaderChain {
  /** The headers of a range in order, each the parent of the next, up to the given last one. */
  read(range: BlockRange, last: NodeHeader, asking: Asking): Promise<NodeHeader[]>;
}

/** Opens the chain of headers that a node has. */
export function openHeaderChain(node: EvmNode): HeaderChain {
  const kept = new Map<number, NodeHeader>();

  function keep(header: NodeHeader): void {
    kept.delete(header.number);
    kept.set(header.number, header);
    for (const oldest of kept.keys()) {
      if (kept.size <= KEPT_MAX) break;
      kept.delete(oldest);
    }
  }

  async function collect(
    blocks: readonly number[],
    asking: Asking,
  ): Promise<(NodeHeader | undefined)[]> {
    const found = new Map(blocks.map((block) => [block, kept.get(block)]));
    const missing = blocks.filter((block) => found.get(block) === undefined);
    await node.headers(missing, asking, (header) => {
      // Kept even when another header fails, so that being throttled does not cost them again.
      keep(header);
      found.set(header.number, header);
    });
    return blocks.map((block) => found.get(block));
  }

  return {
    async read({ from, to }, last, asking) {
      const blocks = Array.from({ length: to - from }, (_, index) => from + index);
      const headers = linked([...(await collect(blocks, asking)), last]);
      keep(last);
      if (headers !== null) return headers;
      // What was kept may be of a fork that is gone.
      for (const block of blocks) kept.delete(block);
      const again = linked([...(await collect(blocks, asking)), last]);
      if (again !== null) return again;
      throw sourceUnavailable(
        `The headers of blocks ${from} to ${to} do not follow from one another: the chain ` +
          "changed while it was read, or the answers come from nodes that disagree.",
      );
    },
  };
}

/** The headers, if each names the one before it as its parent. */
function linked(headers: readonly (NodeHeader | undefined)[]): NodeHeader[] | null {
  const isLinked = headers.every((header, index) => {
    const previous = headers[index - 1];
    if (header === undefined) return false;
    return index === 0 || header.parentHash === previous?.hash;
  });
  return isLinked ? (headers as NodeHeader[]) : null;
}
