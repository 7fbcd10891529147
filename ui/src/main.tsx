import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { LiveUpdates } from "./api/live-updates.ts";
import { createQueryClient } from "./api/create-query-client.ts";
import { App } from "./shell/app.tsx";
import { applyTheme, storedTheme } from "./shell/theme.ts";
import "./style/tokens.css";
import "./style/base.css";
import "./style/kit.css";
import "./style/shell.css";

applyTheme(storedTheme());
const client = createQueryClient();
const live = new LiveUpdates(client);
const root = document.querySelector("#root");
if (root === null) throw new Error("The document has no root.");
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <App live={live} />
    </QueryClientProvider>
  </StrictMode>,
);
