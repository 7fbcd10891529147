import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";
import { OPERATIONS } from "../src/work/operations.ts";
import type { Operation } from "../src/work/operation.ts";

const OPERATIONS_MODULE = "virtual:operations";

/**
 * Gives the page the addresses of all operations without their schemas, which are larger than the
 * whole page: the server checks what it is sent, and the compiler what the page sends.
 */
function operationAddresses(): Plugin {
  return {
    name: "operation-addresses",
    resolveId: (id) => (id === OPERATIONS_MODULE ? `\0${OPERATIONS_MODULE}` : null),
    load(id) {
      if (id !== `\0${OPERATIONS_MODULE}`) return null;
      const entries = Object.entries(OPERATIONS as Record<string, Operation>)
        .filter(([, { verb }]) => verb !== "work")
        .map(([name, { method, path, verb, creates, body }]) => {
          return [
            name,
            { method, path, verb, creates: creates ?? false, hasBody: body !== undefined },
          ];
        });
      return `export const ADDRESSES = ${JSON.stringify(Object.fromEntries(entries))};`;
    },
  };
}

/** The parts that are small; maps, plots and graphs are loaded by the pages that show them. */
const SHARED =
  /ui\/src\/(?:api|parts)\/(?!map-|use-map|run-length|use-palette|plot|graph|gantt|time-line|strip|phases)/;

export default defineConfig({
  root: import.meta.dirname,
  plugins: [react(), operationAddresses()],
  build: {
    outDir: "../dist/ui",
    emptyOutDir: true,
    // Data addresses would need an exception in the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      // What nearly every page uses comes in one file: a page's dozen small ones took longer to ask
      // for than to send.
      output: { codeSplitting: { groups: [{ name: "parts", test: SHARED }] } },
    },
  },
  // While working on the page: `npm run page` beside a server on its usual port.
  server: { proxy: { "/api": "http://127.0.0.1:7290" } },
});
