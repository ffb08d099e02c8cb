/** Return what of a link to the people of an organisation the page understands. */
export function peopleSearch({ q }: Record<string, unknown>): { q?: string | undefined } {
  return typeof q === "string" && q !== "" && q.length <= 100 ? { q } : {};
}
