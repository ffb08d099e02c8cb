import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { onLogout, onOtherUser } from "./api/session-clock";
import { loadTexts } from "./i18n";
import { queryClient } from "./query-client";
import { router } from "./router";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/frame.css";
import "./styles/messages.css";
import "./styles/tables.css";
import "./styles/states.css";
import "./styles/plant.css";
import "./styles/tiles.css";
import "./styles/forms.css";
import "./styles/dialogs.css";
import "./styles/charts.css";
import "./styles/fleet.css";
import "./styles/records.css";
import "./styles/flow.css";
import "./styles/map.css";
import "./theme";

// What this tab shows and keeps in memory may belong to a user who has left. The whole page is loaded, so that nothing remains.
onLogout(() => location.assign(`${router.basepath}/login`));
// Its requests would be those of the new user, below the name and on the pages of the former one.
onOtherUser(() => location.assign(`${router.basepath}/`));

const root = document.getElementById("root");
if (root === null) throw new Error("the page has no element #root");
await loadTexts();
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
