import { globMatches } from "../core/partitions/glob.ts";
import { PawlError } from "../core/errors.ts";

/**
 * Whether a path within a folder, or a key after its prefix, matches: a pattern without a slash is
 * held against the last part. Names with a dot in front are hidden unless the pattern has one too.
 */
export function pathPattern(pattern: string): (path: string) => boolean {
  if (pattern.split("/").includes("..")) {
    throw new PawlError(
      "INPUT_INVALID",
      `The pattern ${JSON.stringify(pattern)} has a part that is "..", which leads out of what is ` +
        "watched; leave it out.",
    );
  }
  const isOfPath = pattern.includes("/");
  const seesHidden = pattern.slice(pattern.lastIndexOf("/") + 1).startsWith(".");
  return (path) => {
    const name = lastPart(path);
    if (name.startsWith(".") && !seesHidden) return false;
    return globMatches(pattern, isOfPath ? path : name);
  };
}

/** The parts of a path or key that people name things after. */
export function nameParts(path: string): { name: string; stem: string; extension: string } {
  const name = lastPart(path);
  const dot = name.lastIndexOf(".");
  // A dot in front makes a name hidden, and is not where its extension starts.
  return dot > 0
    ? { name, stem: name.slice(0, dot), extension: name.slice(dot) }
    : { name, stem: name, extension: "" };
}

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
