import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  base: "/console/",
  plugins: [react()],
  build: {
    target: "es2022",
    // The content security policy allows no data: addresses.
    assetsInlineLimit: 0,
    // Its script would be inline; browsers of the last years preload modules themselves.
    modulePreload: { polyfill: false },
  },
});
