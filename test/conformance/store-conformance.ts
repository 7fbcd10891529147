import { afterEach, beforeEach, describe } from "vitest";
import type { Store, WorkspaceId } from "../../src/store/store.ts";
import { ledgerCases } from "./ledger-cases.ts";
import { logCases } from "./log-cases.ts";
import { lookUpCases } from "./look-up-cases.ts";
import { openingCases } from "./opening-cases.ts";
import { probeCases, probeRaceCases } from "./probe-cases.ts";
import { readTurnCases } from "./read-turn-cases.ts";
import { rowCases } from "./row-cases.ts";
import { sampleCases } from "./sample-cases.ts";
import { secretCases } from "./secret-cases.ts";
import { sideRowCases } from "./side-row-cases.ts";
import { sourceCases } from "./source-cases.ts";
import { transactionCases } from "./transaction-cases.ts";

/** A place of its own where a store keeps its data. */
export type Place = {
  /** Opens the store; again on the same data, where that outlives the store. */
  open: () => Promise<Store>;
  /** Runs SQL beside the store. `pawl.` before a table's name is taken off where there is none. */
  sql: (text: string) => Promise<unknown[][]>;
  /** How long a transaction may stand still unless it is to be patient; null where that is not limited. */
  stillMsMax: number | null;
  /** The arguments with which `hold-transaction.ts` opens the same data. */
  address: [kind: string, where: string];
};

/** What the cases of one store share. */
export type Suite = {
  /** Whether the data outlives the store and others can reach it. */
  durable: boolean;
  place: () => Place;
  store: () => Store;
  ws: () => WorkspaceId;
};

const CASES: Record<string, (suite: Suite) => void> = {
  ledger: ledgerCases,
  transactions: transactionCases,
  rows: rowCases,
  "look-ups": lookUpCases,
  "turns of reads": readTurnCases,
  "side rows": sideRowCases,
  logs: logCases,
  probes: probeCases,
  "probes under many hands": probeRaceCases,
  secrets: secretCases,
  sources: sourceCases,
  samples: sampleCases,
  opening: openingCases,
};

/** What every `Store` does. Each implementation's test file is a call to this. */
export function storeConformance(
  name: string,
  durable: boolean,
  makePlace: () => Promise<Place>,
): void {
  describe(`${name} store`, () => {
    let place: Place;
    let store: Store;
    let ws: WorkspaceId;
    beforeEach(async () => {
      place = await makePlace();
      store = await place.open();
      ({ ws } = await store.workspace("acme", "main"));
    });
    afterEach(() => store.close());

    const suite = { durable, place: () => place, store: () => store, ws: () => ws };
    describe.each(Object.entries(CASES))("%s", (_subject, cases) => {
      cases(suite);
    });
  });
}
