export interface LoginSearch {
  /** Path of the console that is shown after the login. */
  next?: string | undefined;
}

/** Return the path to show next; only one of the console, because a link must not lead to another site after the login. */
export function loginSearch({ next }: Record<string, unknown>): LoginSearch {
  return { next: typeof next === "string" && /^\/(?![/\\])/.test(next) ? next : undefined };
}
