import { useSyncExternalStore } from "react";
import { loadAnew } from "../ui/lazy-part";
import type { en } from "./en";

/** Every text of the console. A catalogue that lacks one does not compile. */
export type Catalogue = typeof en;
export type Language = "en" | "de";

export const LANGUAGES: Record<Language, string> = { en: "English", de: "Deutsch" };

/** Each is loaded by itself: a browser loads the language that it shows. */
const LOADERS: Record<Language, () => Promise<Catalogue>> = {
  en: async () => (await import("./en")).en,
  de: async () => (await import("./de")).de,
};
const KEY = "gridfleet-language";
const listeners = new Set<() => void>();

let language = initialLanguage();
document.documentElement.lang = language;
let texts: Catalogue;

/** Load the texts of the user's language, as soon as the service can be reached. Nothing is shown before. */
export async function loadTexts(): Promise<void> {
  try {
    texts = await LOADERS[language]().catch(loadAnew);
  } catch {
    await new Promise((next) => setTimeout(next, 3_000));
    return loadTexts();
  }
}

function initialLanguage(): Language {
  const wanted = [localStorage.getItem(KEY), ...navigator.languages.map((name) => name.slice(0, 2))];
  return (wanted.find((name) => name !== null && name in LOADERS) as Language | undefined) ?? "en";
}

/** Show the console in a language, also after the next start. */
export async function setLanguage(chosen: Language): Promise<void> {
  texts = await LOADERS[chosen]().catch(loadAnew);
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
  useLanguage();
  return texts;
}
