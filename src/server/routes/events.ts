import type { EventDocument } from "../../core/api/event-operations.ts";
import { PawlError } from "../../core/errors.ts";
import type { RecordedEvent } from "../../core/events/envelope.ts";
import { type EventData, EVENTS, isEventType } from "../../core/events/index.ts";
import { nearMiss } from "../../core/near-miss.ts";
import { whyChain } from "../../engine/why-chain.ts";
import type { EventFilter, Reader } from "../../store/store.ts";
import type { Caller } from "../authenticate.ts";
import { type Call, type Handler, readAt, type Reply } from "../call.ts";
import { eventStream, eventsWithin } from "../event-stream.ts";
import { eventsOfEntity } from "../events-of-entity.ts";
import { shownSpec } from "../webhook-document.ts";

/** An event with its actor and data as documents, under the names of its workspace. */
function eventDocument(
  event: RecordedEvent,
  { engine, caller }: Pick<Call<"listEvents">, "engine" | "caller">,
): EventDocument {
  const { workspace } = engine;
  return {
    ...event,
    tenant_id: workspace.tenant_id,
    workspace_id: workspace.workspace_id,
    actor: JSON.parse(event.actor) as EventDocument["actor"],
    data: shownData(event, caller) as EventDocument["data"],
  };
}

function shownData({ type, data }: RecordedEvent, caller: Caller): unknown {
  const parsed: unknown = JSON.parse(data);
  if (type !== "DefinitionsPublished") return parsed;
  const published = parsed as EventData<"DefinitionsPublished">;
  const specs = published.specs.map((each) => ({ ...each, body: shownSpec(each.body, caller) }));
  return { ...published, specs };
}

/** The types that a request wants; refuses one that no event has. */
function typesOf({ type, types }: Call<"listEvents">["query"]): string[] | undefined {
  if (type === undefined && types === undefined) return undefined;
  const wanted = [...(types ?? []), ...(type ?? [])];
  const unknown = wanted.find((name) => !isEventType(name));
  if (unknown === undefined) return wanted;
  const known = Object.keys(EVENTS);
  const meant = nearMiss(unknown, known);
  throw new PawlError(
    "INPUT_INVALID",
    `There are no events of type ${JSON.stringify(unknown)}. ` +
      (meant === null ? `Known are ${known.join(", ")}.` : `Did you mean ${meant}?`),
    { details: { type: unknown, meant } },
  );
}

/** Which events a request wants. */
async function filterOf(call: Call<"listEvents">, reader: Reader): Promise<EventFilter> {
  const { after, before, entity, limit, descending } = call.query;
  const types = typesOf(call.query);
  const about = entity === undefined ? {} : await eventsOfEntity(reader, entity);
  const through = Math.min(before === undefined ? Infinity : before - 1, about.through ?? Infinity);
  return {
    ...about,
    after: Math.max(after, about.after ?? 0),
    limit,
    ...(through === Infinity ? {} : { through }),
    ...(types === undefined ? {} : { types }),
    ...(descending === "true" ? { descending: true } : {}),
  };
}

async function listEvents(call: Call<"listEvents">): Promise<Reply | Response> {
  if (call.query.follow === "true") {
    const filter = await readAt(call, (reader) => filterOf(call, reader));
    return eventStream(call, filter, (event) => eventDocument(event, call));
  }
  return readAt(call, async (reader) => {
    const filter = await filterOf(call, reader);
    const { items, last } = await eventsWithin(reader, filter, (event) =>
      eventDocument(event, call),
    );
    const { pos } = await reader.head();
    const next = last?.pos ?? null;
    const answer = {
      items,
      next_after: filter.descending === true ? null : next,
      next_before: filter.descending === true ? next : null,
      pos,
    };
    return { answer, pos };
  });
}

/** What can be asked of the ledger, and the pass that moves it on. */
export const EVENT_HANDLERS: {
  listEvents: Handler<"listEvents">;
  explainEntity: Handler<"explainEntity">;
  tick: Handler<"tick">;
} = {
  listEvents,
  explainEntity: (call) =>
    readAt(call, async (reader) => {
      const chain = await whyChain(reader, call.query.entity);
      const items = chain.map((event) => eventDocument(event, call));
      const { pos } = await reader.head();
      return { answer: { items, pos }, pos };
    }),
  async tick({ engine }) {
    const { pos, events } = await engine.tick();
    return { answer: { pos, events }, pos };
  },
};
