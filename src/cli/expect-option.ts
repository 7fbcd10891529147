import type { Option } from "commander";
import { integerOption } from "./option-values.ts";

/** The option of every change: refused when the thing has another version by now. */
export function expectOption(): Option {
  return integerOption("--expect <version>", "refuse when it has another version by now", 0);
}
