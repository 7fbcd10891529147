import { exampleReadme } from "./example-readme.ts";
import { alike } from "./readme-blocks.ts";

/** A line of output without how far the split was just then; empty for what is not always there. */
function alikeSplit(line: string): string {
  return alike(line)
    .replaceAll(/#(?:,#)+/g, "#")
    .replace(/\S+:#:ID/, "WORKER")
    .replace(/^(?:…|[a-z_]+, .* rows copied.*)$/, "")
    .replace(/^[✓▶] planning .*/, "PHASES")
    .replace(/^(phase|step|backfill|tail|verification) .*/, "$1")
    .replace(/^✓ lag: .*/, "LAG");
}

exampleReadme("live-split", alikeSplit);
