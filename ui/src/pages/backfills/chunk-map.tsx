import { type ReactNode, useCallback } from "react";
import { call } from "../../api/call.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Loaded } from "../../parts/loaded.tsx";
import { RunLengthMap } from "../../parts/run-length-map.tsx";
import { counted, momentText } from "../../parts/time-text.ts";
import { type Backfill, type Chunk, chunkKeys } from "./backfill-texts.ts";

/** All chunks of a backfill, a cell for each. */
export function ChunkMap(props: {
  backfill: Backfill;
  marked: number | null;
  onOpen: (index: number) => void;
}): ReactNode {
  const { backfill_id } = props.backfill;
  const answer = useAnswer("mapChunks", { params: { backfill_id } });
  const detailsOf = useCallback(
    async (index: number, signal: AbortSignal) => {
      const params = { backfill_id };
      const query = { from: index, limit: 1 };
      const { items } = await call("listChunks", { params, query, signal });
      return items[0] === undefined ? null : <Details chunk={items[0]} />;
    },
    [backfill_id],
  );
  return (
    <Loaded answer={answer}>
      {({ cells, states, lengths }) => (
        <RunLengthMap
          label="Map of the chunks"
          noun="chunk"
          {...{ cells, states, lengths, detailsOf }}
          marked={props.marked}
          onOpen={props.onOpen}
        />
      )}
    </Loaded>
  );
}

function Details({ chunk }: { chunk: Chunk }): ReactNode {
  const { partitions, finished_at, planned_at, split_into } = chunk;
  return (
    <>
      <div>{chunkKeys(chunk)}</div>
      <div>
        {counted(partitions, "partition")}
        {finished_at !== null && `, ended ${momentText(finished_at)}`}
        {finished_at === null && planned_at !== null && `, planned ${momentText(planned_at)}`}
        {split_into !== null && `, split into chunks ${split_into.join(" and ")}`}
      </div>
    </>
  );
}
