import type { ReactNode } from "react";
import { Link } from "wouter";
import { useAnswer } from "../../api/use-answer.ts";
import { Id } from "../../parts/facts.tsx";
import { partOf, type Run } from "./run-texts.ts";

/** Who or what asked for a run. */
export type TriggerSource = Run["trigger_source_ref"];

/** Names of schedules and sensors by their ids, as far as they are known. */
export type TriggerNames = ReadonlyMap<string, string>;

/** The names of the schedules and sensors behind some runs; nothing is asked without any. */
export function useTriggerNames(sources: readonly TriggerSource[]): TriggerNames {
  const schedules = useAnswer(
    "listSchedules",
    { query: { status: "ACTIVE,PAUSED,DELETED", limit: 200 } },
    { enabled: sources.some(({ type }) => type === "schedule") },
  );
  const sensors = useAnswer(
    "listSensors",
    { query: { status: "ACTIVE,PAUSED,ERROR,DELETED", limit: 200 } },
    { enabled: sources.some(({ type }) => type === "sensor") },
  );
  const names = new Map<string, string>();
  for (const { schedule_id, name } of schedules.data?.items ?? []) names.set(schedule_id, name);
  for (const { sensor_id, name } of sensors.data?.items ?? []) names.set(sensor_id, name);
  return names;
}

/** Who or what asked for a run, with a link to it; `isWhole` names the very part that asked. */
export function Trigger(props: {
  source: TriggerSource;
  names: TriggerNames;
  isWhole?: boolean;
}): ReactNode {
  const { source, names, isWhole = false } = props;
  const { kind, href, name, part } = describe(source, names);
  if (href === null) return <>{name}</>;
  return (
    <Link href={href}>
      {kind} {name}
      {isWhole && part !== "" ? `, ${part}` : ""}
    </Link>
  );
}

type Described = { kind: string; href: string | null; name: ReactNode; part: string };

function describe(source: TriggerSource, names: TriggerNames): Described {
  switch (source.type) {
    case "manual":
      return { kind: "", href: null, name: source.user_id, part: "" };
    case "backfill": {
      const chunk = source.chunk_id.split(":").at(-1) ?? "";
      const href = `/backfills/${segment(source.backfill_id)}?chunk=${chunk}`;
      const part = `chunk ${chunk}`;
      return { kind: "backfill", href, name: <Id id={source.backfill_id} />, part };
    }
    case "schedule": {
      const { schedule_id: id, tick_id } = source;
      const href = `/schedules/${segment(id)}?tick=${encodeURIComponent(tick_id)}`;
      const name = names.get(id) ?? <Id id={id} />;
      return {
        kind: "schedule",
        href,
        name,
        part: partOf("tick", tick_id),
      };
    }
    case "sensor": {
      const { sensor_id: id, eval_id } = source;
      const href = `/sensors/${segment(id)}?eval=${encodeURIComponent(eval_id)}`;
      const name = names.get(id) ?? <Id id={id} />;
      return { kind: "sensor", href, name, part: partOf("evaluation", eval_id) };
    }
    case "sync": {
      const href = `/syncs/${segment(source.sync_id)}?segment=${source.segment_index}`;
      const part = `segment ${source.segment_index} (${source.purpose})`;
      return { kind: "sync", href, name: <Id id={source.sync_id} />, part };
    }
    case "shards":
      return describeWork(source.work);
    case "work": {
      const href = `/work/${segment(source.kind)}/${segment(source.id)}`;
      const part = `part ${source.index}`;
      return { kind: source.kind, href, name: <Id id={source.id} />, part };
    }
  }
}

function describeWork(work: Extract<TriggerSource, { type: "shards" }>["work"]): Described {
  if (work.work === "split") {
    const href = `/splits/${segment(work.split_id)}`;
    const part = `step ${work.n} (${work.step})`;
    return { kind: "split", href, name: <Id id={work.split_id} />, part };
  }
  const at = work.index === null ? "" : `?segment=${work.index}`;
  const href = `/moves/${segment(work.move_id)}${work.step === "survey" ? "" : at}`;
  const where =
    work.index === null ? "" : ` ${work.step === "survey" ? "lane" : "segment"} ${work.index}`;
  return {
    kind: "move",
    href,
    name: <Id id={work.move_id} />,
    part: `${work.step}${where}`,
  };
}

function segment(text: string): string {
  return encodeURIComponent(text);
}
