import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** Left to itself, the bundler makes a chunk of almost every module that is shared. Many small ones compress badly. */
const groups = [
  // What every page needs. Chunks that `main` waits for would wait for it, if it were in this one.
  { name: "core", tags: ["$initial" as const], test: /\/node_modules\/|\/src\/(?!main\.tsx)/, priority: 1 },
  // What many screens share. Not the charts, whose library is as large as everything else here, and not what only alerts, groups,
  // templates, registrations, keys, pages of one record, lists with a filter by time or pages of administrators need.
  {
    name: "shared",
    test: /\/console\/src\/(?!(ui\/(chart|copy|save-file|sub-page|time-f)|format\/(gaps|thinned)|screens\/for-|(admin|alert-t(exts|itle)|groups|metrics|people|signals|template-choice)\.ts))/,
    minShareCount: 4,
  },
  // What the charts of a plant share.
  { name: "charts", test: /\/console\/src\/ui\/(time-zone-choice|signed-number)\./ },
];

export default defineConfig({
  base: "/console/",
  plugins: [react()],
  build: {
    target: "es2022",
    // The content security policy allows no data: addresses.
    assetsInlineLimit: 0,
    // Its script would be inline; browsers of the last years preload modules themselves.
    modulePreload: { polyfill: false },
    rolldownOptions: { output: { codeSplitting: { groups } } },
  },
});
