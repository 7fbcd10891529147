import { assert } from "../core/assert.ts";
import type { RecordedEvent } from "../core/events/envelope.ts";
import type { Head } from "./store.ts";

/** Makes sure that the events follow the head without a hole, in position and in hash. */
export function assertContinuesHead(head: Head, events: readonly RecordedEvent[]): void {
  let { pos, hash } = head;
  for (const event of events) {
    assert(event.pos === pos + 1, `event ${event.pos} follows position ${pos}`);
    assert(event.prev_hash === hash, `event ${event.pos} carries the hash of its predecessor`);
    pos = event.pos;
    hash = event.hash;
  }
}
