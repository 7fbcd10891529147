import { PawlError } from "./errors.ts";
import { decodeValue } from "./partitions/multi-key.ts";
import { type SyncTarget, targetKeyOf } from "./sync-spec.ts";

/** The fields in a text such as `network=mainnet,wallet=0x1`, in any order. Throws INPUT_INVALID. */
export function targetOfText(text: string): SyncTarget {
  const fields = new Map<string, string>();
  for (const part of text.split(",")) {
    const at = part.indexOf("=");
    const name = part.slice(0, Math.max(0, at)).trim();
    const value = part.slice(at + 1);
    if (!/^[A-Za-z_]\w*$/.test(name) || value === "" || fields.has(name)) {
      throw new PawlError(
        "INPUT_INVALID",
        `${JSON.stringify(text)} is no target: expected fields such as ` +
          "network=mainnet,wallet=0x1, each of them once.",
        { details: { target: text } },
      );
    }
    // A value that nobody encoded means itself.
    fields.set(name, decodeValue(value) ?? value);
  }
  return Object.fromEntries(fields);
}

/** The sync that a text names: an id as it is, `name@fields` with the fields in their order. */
export function syncRefOf(text: string): string {
  const at = text.indexOf("@");
  if (at < 0) return text;
  return `${text.slice(0, at)}@${targetKeyOf(targetOfText(text.slice(at + 1)))}`;
}
