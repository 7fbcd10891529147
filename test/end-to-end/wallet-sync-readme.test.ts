import { exampleReadme } from "./example-readme.ts";
import { alike } from "./readme-blocks.ts";

/** A line of output without how far the syncs were just then; empty for what is not always there. */
function alikeSync(line: string): string {
  return alike(line)
    .replace(/\b(?:PENDING|RUNNING|FOLLOWING)\b/, "STATUS")
    .replaceAll(/#(?:,#)+/g, "#")
    .replaceAll(/(?<= )(?:-|#\/s)(?= |$)/g, "#")
    .replace(/^(synced to|segments|progress) .*/, "$1")
    .replace(/^(?:rate|#) .*|^█.*/, "");
}

exampleReadme("wallet-sync", alikeSync);
