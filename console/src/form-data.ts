/** Return the text of a field without spaces around it; none for a field that the form lacks. */
export function fieldText(values: FormData, name: string): string {
  return String(values.get(name) ?? "").trim();
}
