import { assert } from "../assert.ts";

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/**
 * The subject of events about something with an id of its own, where many may be made by one event:
 * the last fifty bits of the id, below zero so that it is no position.
 */
export function entitySubject(id: string): number {
  let number = 0;
  for (const letter of id.slice(-10)) {
    const digit = CROCKFORD.indexOf(letter.toUpperCase());
    assert(digit !== -1, `${id} is a ULID`);
    number = number * 32 + digit;
  }
  return -1 - number;
}
