import { type ComponentType, lazy } from "react";
import { send } from "../api/client";
import { ApiError } from "../api/error";

const KEY = "gridfleet-reloaded";
const AGAIN_AFTER = 60_000;
/** Milliseconds until a part is loaded again, if the service could not be reached. */
const UNTIL_NEXT = 3_000;

/** Return a part of a page whose file is loaded when it is first shown, or as soon as the service can be reached. */
export function lazyPart<P>(load: () => Promise<ComponentType<P>>) {
  const loaded = async (): Promise<ComponentType<P>> => {
    try {
      return await load().catch(loadAnew);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      await new Promise((next) => setTimeout(next, UNTIL_NEXT));
      return loaded();
    }
  };
  return lazy(async () => ({ default: await loaded() }));
}

/**
 * Load the page anew, once, because one of its files could not be loaded: a release that replaced it has other files.
 *
 * Only for what the user has opened. Files that the router loads in advance, when the pointer is above a link, must not take away
 * what was typed; if they are missing, the router loads the page anew when the link is followed.
 *
 * @throws ApiError The service does not answer: the browser would show an error of its own in place of the page.
 * @throws error if the page was loaded anew just before.
 */
export async function loadAnew(error: unknown): Promise<never> {
  await send(new Request(location.href, { method: "HEAD" }));
  if (Date.now() - Number(sessionStorage.getItem(KEY)) < AGAIN_AFTER) throw error;
  sessionStorage.setItem(KEY, String(Date.now()));
  location.reload();
  return new Promise(() => undefined);
}
