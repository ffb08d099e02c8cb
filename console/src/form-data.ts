/**
 * Return the members of `values` that differ from what a form has shown.
 *
 * What the user left as it was is not sent: it would undo what others have changed since.
 */
export function changesOf<T extends object>(shown: { [K in keyof T]: unknown }, values: T): Partial<T> {
  const differs = ([name, value]: [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(shown[name as keyof T]);
  return Object.fromEntries(Object.entries(values).filter(differs)) as Partial<T>;
}

/** Return the text of a field without spaces around it; none for a field that the form lacks. */
export function fieldText(values: FormData, name: string): string {
  return String(values.get(name) ?? "").trim();
}
