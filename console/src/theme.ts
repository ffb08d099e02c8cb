import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
export const THEMES: readonly Theme[] = ["system", "light", "dark"];

const KEY = "gridfleet-theme";
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

let theme = THEMES.find((one) => one === localStorage.getItem(KEY)) ?? "system";

function show(): void {
  const isDark = theme === "dark" || (theme === "system" && systemIsDark.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  for (const listener of listeners) listener();
}

show();
systemIsDark.addEventListener("change", show);

/** Show the console in these colours, also after the next start. */
export function setTheme(chosen: Theme): void {
  theme = chosen;
  localStorage.setItem(KEY, chosen);
  show();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Return the colours that are shown: with "system", those of the system. */
export function useShownTheme(): "light" | "dark" {
  return useSyncExternalStore(subscribe, () => (document.documentElement.dataset.theme === "dark" ? "dark" : "light"));
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, () => theme);
}
