import type { SensorTarget } from "../definition/spec.ts";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { EvaluatedRequest } from "../probe-protocol.ts";

/**
 * The run that a sensor's target asks for because of an item or a message. `{path.to.field}` in its
 * texts is filled from the item; `{{` and `}}` stand for braces. A text of the configuration that is
 * one such field and nothing else becomes the field's value, whatever it is. Throws INPUT_INVALID for
 * a field that the item does not have.
 */
export function requestOfTarget(target: SensorTarget, item: Json): EvaluatedRequest {
  const parsed = EvaluatedRequest.safeParse({
    asset_selection: target.asset_selection,
    partition_keys: target.partition_key === null ? null : [filledText(target.partition_key, item)],
    run_key: target.run_key === null ? null : filledText(target.run_key, item),
    config: filledConfig(target.config, item),
    labels: {},
  });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw unfit(
    `The target's ${issue?.path.join(".")}, once filled in, is wrong: ${issue?.message}.`,
  );
}

/** The runs for items that were found; one that does not fit is refused and holds up no other. */
export function requestsOfTarget(target: SensorTarget, items: readonly Json[]): EvaluatedRequest[] {
  return items.map((item) => {
    try {
      return requestOfTarget(target, item);
    } catch (error) {
      if (!(error instanceof PawlError)) throw error;
      const { asset_selection } = target;
      const refused = { class: error.code, message: error.message };
      const nothing = { partition_keys: null, run_key: null, config: null, labels: {} };
      return { asset_selection, ...nothing, error: refused };
    }
  });
}

/** What is wrong with the texts of a target, whatever the item; null when nothing is. */
export function targetFault({ partition_key, run_key, config }: SensorTarget): string | null {
  try {
    for (const text of textsOf([partition_key, run_key, config])) partsOf(text);
    return null;
  } catch (error) {
    if (error instanceof PawlError) return error.message;
    throw error;
  }
}

function textsOf(value: Json): string[] {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null) return [];
  return Object.values(value).flatMap(textsOf);
}

/** A part of a template: text as it is, or the path of a field. */
type Part = { text: string } | { path: string };

function partsOf(template: string): Part[] {
  const parts: Part[] = [];
  for (let at = 0; at < template.length; ) {
    const letter = template.charAt(at);
    if ((letter === "{" || letter === "}") && template.charAt(at + 1) === letter) {
      parts.push({ text: letter });
      at += 2;
    } else if (letter === "{") {
      const end = template.indexOf("}", at);
      const path = end === -1 ? "" : template.slice(at + 1, end).trim();
      if (path === "" || path.includes("{")) throw unbalanced(template);
      parts.push({ path });
      at = end + 1;
    } else if (letter === "}") throw unbalanced(template);
    else {
      parts.push({ text: letter });
      at += 1;
    }
  }
  return parts;
}

function filledText(template: string, item: Json): string {
  return partsOf(template)
    .map((part) =>
      "text" in part ? part.text : textOf(part.path, fieldOf(item, part.path), template),
    )
    .join("");
}

function filledConfig(config: Json, item: Json): Json {
  if (typeof config === "string") {
    const [only, ...others] = partsOf(config);
    if (only !== undefined && "path" in only && others.length === 0) {
      return valueOf(item, only.path, config);
    }
    return filledText(config, item);
  }
  if (typeof config !== "object" || config === null) return config;
  if (Array.isArray(config)) return config.map((value: Json) => filledConfig(value, item));
  return Object.fromEntries(
    Object.entries(config).map(([key, value]) => [key, filledConfig(value, item)]),
  );
}

function valueOf(item: Json, path: string, template: string): Json {
  const value = fieldOf(item, path);
  if (value === undefined) throw missing(path, template);
  return value;
}

/** The field under a path; a name with dots in it is found before a path is. */
function fieldOf(value: Json, path: string): Json | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (Object.hasOwn(value, path)) return (value as Record<string, Json>)[path];
  for (let dot = path.indexOf("."); dot !== -1; dot = path.indexOf(".", dot + 1)) {
    const name = path.slice(0, dot);
    if (!Object.hasOwn(value, name)) continue;
    const found = fieldOf((value as Record<string, Json>)[name] ?? null, path.slice(dot + 1));
    if (found !== undefined) return found;
  }
  return undefined;
}

function textOf(path: string, value: Json | undefined, template: string): string {
  if (value === undefined || value === null) throw missing(path, template);
  if (typeof value !== "object") return String(value);
  throw unfit(
    `The target's ${JSON.stringify(template)} names the field ${path}, which is no text or number ` +
      "but holds others. Name one of those.",
  );
}

function missing(path: string, template: string): PawlError {
  return unfit(
    `The target's ${JSON.stringify(template)} names the field ${path}, which the item does not have. ` +
      "Correct the target, or what sends the item.",
  );
}

function unbalanced(template: string): PawlError {
  return unfit(
    `The target's ${JSON.stringify(template)} has a brace that opens no field. Write {{ and }} for ` +
      "braces themselves.",
  );
}

function unfit(message: string): PawlError {
  return new PawlError("INPUT_INVALID", message);
}
