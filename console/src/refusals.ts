import type { components } from "./api/schema";

type RefusedMessage = components["schemas"]["RefusedMessage"];

/** Messages that were refused for one cause, in the order of the list; at least one. */
export type Cause = [RefusedMessage, ...RefusedMessage[]];

/** Return refused messages by their cause: those whose reasons are equal, and whose details differ in numbers only. */
export function byCause(messages: readonly RefusedMessage[]): Map<string, Cause> {
  const found = new Map<string, Cause>();
  for (const message of messages) {
    // Numbers are places in a list, times and sizes.
    const cause = `${message.reason} ${message.detail.replace(/\d+/g, "#")}`;
    const before = found.get(cause);
    if (before === undefined) found.set(cause, [message]);
    else before.push(message);
  }
  return found;
}
