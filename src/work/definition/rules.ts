import { type CommandRules, idle, legal, refused } from "../command.ts";
import type { ScheduleState } from "../schedule/rows.ts";
import type { SensorRow, SensorState, WebhookRow } from "../sensor/rows.ts";

/** What can be asked of everything that acts by itself. */
export const ENTITY_RULES = {
  update: {
    action: "a change",
    effect: "gives it another definition, if the API made it; its name and its past stay",
    when: legal("ACTIVE", "PAUSED", "ERROR"),
  },
  delete: {
    action: "deletion",
    effect: "deletes what the API made; its history stays, and its name is free for another",
    when: legal("ACTIVE", "PAUSED", "ERROR"),
  },
} as const satisfies CommandRules<unknown, SensorState>;

const SCHEDULE_GONE = { DELETED: refused("The schedule is deleted.") };

/** What can be asked of a schedule, and when. */
export const SCHEDULE_RULES = {
  trigger: {
    action: "triggering",
    effect: "acts now, whatever its own times are, also while it is paused",
    when: { ACTIVE: true, PAUSED: true, ...SCHEDULE_GONE },
  },
  pause: {
    action: "pause",
    effect: "lets its times pass without effect; what it triggered goes on",
    when: { ACTIVE: true, ...SCHEDULE_GONE },
  },
  resume: {
    action: "resume",
    effect: "acts again; what it missed is skipped, or caught up when its definition says so",
    when: { PAUSED: true, ...SCHEDULE_GONE },
  },
} as const satisfies CommandRules<unknown, ScheduleState>;

const SENSOR_GONE = { DELETED: refused("The sensor is deleted.") };

/** What can be asked of a sensor, and when. */
export const SENSOR_RULES = {
  pause: {
    action: "pause",
    effect: "asks for nothing from here on; messages that come are kept",
    when: { ACTIVE: true, ERROR: true, ...SENSOR_GONE },
  },
  resume: {
    action: "resume",
    effect: "acts again, from the cursor and the messages it had",
    when: { PAUSED: true, ...SENSOR_GONE },
  },
  "reset-cursor": {
    action: "moving the cursor",
    effect: "moves the cursor to the start or to an earlier place; an evaluation under way is void",
    when: { ACTIVE: hasCursor, ERROR: hasCursor, PAUSED: hasCursor, ...SENSOR_GONE },
  },
  secret: {
    action: "a new secret",
    effect: "makes a secret for those who push messages; the one before stays good for a while",
    when: { ...legal("ACTIVE", "PAUSED", "ERROR"), ...SENSOR_GONE },
  },
} as const satisfies CommandRules<Pick<SensorRow, "mode">, SensorState>;

function hasCursor({ mode }: Pick<SensorRow, "mode">) {
  return mode === "push" ? idle("The sensor is pushed to and has no cursor.") : null;
}

/** What can be asked of a webhook, and when. */
export const WEBHOOK_RULES = {
  test: {
    action: "a test",
    effect: "sends a test notification",
    when: legal("ACTIVE"),
  },
  secret: {
    action: "a new secret",
    effect: "makes a secret to sign with; the one before stays good for a while",
    when: legal("ACTIVE", "PAUSED"),
  },
} as const satisfies CommandRules<unknown, WebhookRow["state"]>;
