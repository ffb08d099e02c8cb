import { type ComponentType, lazy } from "react";

const KEY = "gridfleet-reloaded";
const AGAIN_AFTER = 60_000;

/** Return a part of a page whose file is loaded when it is first shown. */
export function lazyPart<P>(load: () => Promise<ComponentType<P>>) {
  return lazy(async () => ({ default: await load().catch(loadAnew) }));
}

/**
 * Load the page anew, once, because one of its files could not be loaded: a release that replaced it has other files.
 *
 * Only for what the user has opened. Files that the router loads in advance, when the pointer is above a link, must not take away
 * what was typed; if they are missing, the router loads the page anew when the link is followed.
 *
 * @throws error if that has just happened.
 */
export function loadAnew(error: unknown): Promise<never> {
  if (Date.now() - Number(sessionStorage.getItem(KEY)) < AGAIN_AFTER) throw error;
  sessionStorage.setItem(KEY, String(Date.now()));
  location.reload();
  return new Promise(() => undefined);
}
