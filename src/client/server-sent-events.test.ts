import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ServerSentEvent, serverSentEvents } from "./server-sent-events.ts";

const TEXT = [
  "retry: 1000\n\n",
  'id: 7\nevent: RunRequested\ndata: {"a":"é"}\n\n',
  ": still here\n\n",
  "data: one\ndata: two\n\n",
  "data: cut off",
].join("");

const EVENTS = [
  { id: "7", event: "RunRequested", data: '{"a":"é"}' },
  { id: null, event: "message", data: "one\ntwo" },
];

describe("serverSentEvents", () => {
  test("holds the stream before the first message is asked for", () => {
    const body = new ReadableStream<Uint8Array>();
    serverSentEvents(body);
    expect(body.locked).toBe(true);
  });

  test("gives the same messages however the bytes are cut", async () => {
    const bytes = new TextEncoder().encode(TEXT);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat({ max: bytes.length })), async (cuts) => {
        const ends = [...cuts, bytes.length].toSorted((one, other) => one - other);
        let start = 0;
        const parts = ends.map((end) => bytes.slice(start, (start = end)));
        const body = ReadableStream.from(parts) as ReadableStream<Uint8Array>;
        const events: ServerSentEvent[] = [];
        for await (const event of serverSentEvents(body)) events.push(event);
        expect(events).toEqual(EVENTS);
      }),
    );
  });
});
