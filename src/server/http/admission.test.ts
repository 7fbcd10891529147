import { describe, expect, test } from "vitest";
import {
  Admission,
  DEFAULT_LIMITS,
  lastingPlaces,
  type AdmissionPlace,
  workPlaces,
} from "./admission.ts";
import type { Caller } from "./authenticate.ts";

const callerOf = (ws: number, token_id: string | null): Caller => {
  return { ws, actor: { principal: "p", token_id }, verbs: [] };
};

function canEnter(admission: Admission, places: readonly AdmissionPlace[]): boolean {
  try {
    admission.enterAll(places);
    return true;
  } catch {
    return false;
  }
}

describe("Admission", () => {
  test("turns away what is beyond the limit until a place is given up", () => {
    const admission = new Admission();
    const enter = () => admission.enter("a", 2, "things", 429);
    const leave = enter();
    enter();
    expect(enter).toThrow("There are 2 things already");
    leave();
    enter();
    expect(enter).toThrow("There are 2 things already");
  });

  test("takes a place back once, however often it is given up", () => {
    const admission = new Admission();
    const leave = admission.enter("a", 2, "things", 429);
    admission.enter("a", 2, "things", 429);
    leave();
    leave();
    admission.enter("a", 2, "things", 429);
    expect(() => admission.enter("a", 2, "things", 429)).toThrow("things");
  });

  test("takes all places or none", () => {
    const admission = new Admission();
    const place = (name: string) => ({ name, limit: 1, what: name, status: 429 as const });
    admission.enter("b", 1, "b", 429);
    expect(() => admission.enterAll([place("a"), place("b")])).toThrow("1 b already");
    expect(() => admission.enterAll([place("a")])).not.toThrow();
  });

  test("I64: no token and no workspace can take all the room there is", () => {
    const server = { limits: { ...DEFAULT_LIMITS, requests: 8, waits: 4 }, engines: [1, 2] };
    const fill = (callers: readonly Caller[], placesOf: (caller: Caller) => AdmissionPlace[]) => {
      const admission = new Admission();
      let entered = 0;
      for (const caller of callers) {
        while (canEnter(admission, placesOf(caller))) entered++;
      }
      return entered;
    };
    const work = (caller: Caller) => workPlaces(server, caller, "requests");
    expect(fill([callerOf(1, "a")], work)).toBe(4);
    expect(fill([callerOf(1, "a"), callerOf(1, "b"), callerOf(1, "c")], work)).toBe(6);
    expect(fill([callerOf(1, "a"), callerOf(1, "b"), callerOf(2, "c")], work)).toBe(8);
    expect(fill([callerOf(1, null)], work)).toBe(6);
    const waits = (caller: Caller) => lastingPlaces(server, caller, "waits");
    expect(fill([callerOf(1, "a"), callerOf(1, "b"), callerOf(2, "a")], waits)).toBe(8);
    const claims = (caller: Caller) => lastingPlaces(server, caller, "claims");
    expect(fill([callerOf(1, "a")], claims)).toBe(400);
    expect(fill([callerOf(1, "a"), callerOf(1, "b")], claims)).toBe(500);
  });

  test("counts each name by itself", () => {
    const admission = new Admission();
    admission.enter("a", 1, "things", 503);
    expect(() => admission.enter("b", 1, "things", 503)).not.toThrow();
  });
});
