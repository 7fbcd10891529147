import type { Address } from "viem";
import type { Anvil } from "./anvil.ts";
import { chainRows, type TransferRow } from "./chain-rows.ts";

/** What a node has, read once and kept: a chain that nobody rewrites. */
export class ChainMirror {
  readonly #anvil: Anvil;
  readonly #rows = new Map<Address, { rows: TransferRow[]; to: number }>();

  constructor(anvil: Anvil) {
    this.#anvil = anvil;
  }

  /** The transfers of a wallet up to a block. */
  async rows(wallet: Address, to: number): Promise<TransferRow[]> {
    const known = this.#rows.get(wallet) ?? { rows: [], to: 0 };
    this.#rows.set(wallet, known);
    while (known.to < to) {
      const from = known.to + 1;
      const more = await chainRows(this.#anvil, { from, to }, wallet);
      // Somebody else may have read them meanwhile.
      if (known.to + 1 !== from) continue;
      known.rows.push(...more);
      known.to = to;
    }
    return known.rows.filter(({ block }) => block <= to);
  }

  /** Forgets all above a block. */
  forgetAbove(block: number): void {
    for (const known of this.#rows.values()) {
      known.rows = known.rows.filter((row) => row.block <= block);
      known.to = Math.min(known.to, block);
    }
  }
}
