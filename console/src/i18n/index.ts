import { useSyncExternalStore } from "react";
import { de } from "./de";
import { en } from "./en";

/** Every text of the console. A catalogue that lacks one does not compile. */
export type Catalogue = typeof en;
export type Language = "en" | "de";

export const LANGUAGES: Record<Language, string> = { en: "English", de: "Deutsch" };

const CATALOGUES: Record<Language, Catalogue> = { en, de };
const KEY = "gridfleet-language";
const listeners = new Set<() => void>();

let language = initialLanguage();
document.documentElement.lang = language;

function initialLanguage(): Language {
  const wanted = [localStorage.getItem(KEY), ...navigator.languages.map((name) => name.slice(0, 2))];
  return (wanted.find((name) => name !== null && name in CATALOGUES) as Language | undefined) ?? "en";
}

/** Show the console in a language, also after the next start. */
export function setLanguage(chosen: Language): void {
  language = chosen;
  localStorage.setItem(KEY, chosen);
  document.documentElement.lang = chosen;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useLanguage(): Language {
  return useSyncExternalStore(subscribe, () => language);
}

/** Return the language with the region that the browser names, for dates and numbers: `en-GB`. */
export function useLocale(): string {
  const shown = useLanguage();
  return navigator.languages.find((name) => name.slice(0, 2) === shown) ?? shown;
}

/** Return the texts in the language of the user. */
export function useTexts(): Catalogue {
  return CATALOGUES[useLanguage()];
}
